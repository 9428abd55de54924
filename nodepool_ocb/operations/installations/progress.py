"""``installation show`` and ``installation report``: the progress of an installation, and the words of its installer."""

from __future__ import annotations

from nodepool_ocb.engine import installing, liveness
from nodepool_ocb.engine.world import NodeView, Stored
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import Installation
from nodepool_ocb.model.ranges import Percent
from nodepool_ocb.model.records import Change, Set
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import installation as steps
from nodepool_ocb.provisioning.installation import InstallerReport
from nodepool_ocb.provisioning.installation import ReportKind as ReportKind
from nodepool_ocb.views.provisioning.installations import InstallationDocument, document


def under_way(view: NodeView) -> Stored[Installation]:
    """The installation that is under way; raises Conflict if none is."""
    found = installing.under_way(view)
    if found is None:
        last = installing.stored(view)
        why = f": the last one failed: {last.record.reason}" if last is not None and last.record.reason else ""
        raise Conflict(
            f"no installation of {view.name} is under way{why}; see: nodepool-ocb installation show {view.name}"
        )
    return found


class InstallationShow(Operation[InstallationDocument], frozen=True, kw_only=True):
    """The progress of the newest installation of a machine."""

    noun = "installation"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadWorld,)

    node: str

    def decide(self, situation: Situation) -> Steps[InstallationDocument]:  # noqa: ARG002
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        found = installing.stored(view)
        if found is None:
            raise NotFound(f"machine {self.node} was never installed; see: nodepool-ocb node show {self.node}")
        return document(self.node, found.record, under_way=installing.under_way(view) is not None)


class InstallationReport(Operation[Explained], frozen=True, kw_only=True):
    """Record a word of the installer: its progress, or its failure. A repetition changes nothing."""

    noun = "installation"
    verb = "report"
    right = Right.ADMIN
    reads = (ReadWorld,)
    writes = ("installation", "node")

    node: str
    step: ReportKind
    percent: Percent = 0
    reason: str = ""
    checksum: str = ""  # of the disk: sha256:...
    disk: str = ""  # that lost its data, or with a reason: did not

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        found = under_way(view)
        report = InstallerReport(
            word=self.step, percent=self.percent, reason=self.reason, checksum=self.checksum, disk=self.disk
        )
        after = steps.reported(found.record, report, situation.now)
        if after == found.record:
            return Explained()
        changes: list[Change] = [Set(paths.installation(view.name), after, found.version)]
        if after.step in steps.LEAVES and found.record.step is not after.step:
            changes += liveness.changed(world, view, situation.now, situation.by, bootenv=steps.LOCAL)
        yield changes
        return Explained()

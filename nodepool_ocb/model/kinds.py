"""The table of record kinds: one row for each kind of record that this room defines.

Other code takes its branches from the rows. A World takes its paths and its wake-ups from them; ZooKeeper's rights, the check of
unreadable records and the names for people come from them, too. So do docs/records.md and the tests with damaged records. A new
kind of record is one struct and one row. store.kinds adds the rows of the rooms above.

A path is written with a name in braces for each part that differs: ``/ocb/nodes/{node}/fence``. A name of a node, a role
or a deployment must obey the rules of ranges.py (``store.world.paths.misnamed``). ``FOLDERS`` has the rights at places that
belong to no kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from nodepool_ocb.model.boot import Bootenv, Publication, Publisher
from nodepool_ocb.model.images import Build, BuildRequest, Pause, Upload
from nodepool_ocb.model.installation import BootToken, Installation, MachineUse
from nodepool_ocb.model.joining import AdoptionRule, Inventory, MachineRegistration
from nodepool_ocb.model.journal import Entry, Webhook
from nodepool_ocb.model.keyed import KeyedCall
from nodepool_ocb.model.networks import MacOwner, Network, NetworkAddress
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import (
    Claim,
    Cluster,
    Daemon,
    DaemonPause,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Given,
    LockOwner,
    LogKey,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Run,
    Structure,
    TaskRunPointer,
)
from nodepool_ocb.model.tokens import Token

_HOLE: Final = re.compile(r"\{([a-z_]+)\}")


class Wake(StrEnum):
    """The writes of a record after which a World reports a change to its daemon."""

    NEVER = "never"  # the World shows the record and reports no change
    CHANGED = "changed"  # a write with another content
    WRITTEN = "written"  # each write


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of each kind of daemon at one place, as letters of ``rights.ALL``; people have all rights."""

    annealer: str = ""
    builder: str = ""
    launcher: str = ""
    api: str = ""
    requester: str = ""


class RecordKind(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table."""

    record: type[Record] | None  # None: attributes, a JSON object
    paths: tuple[str, ...]  # with a name in braces for each part that differs; a World lists the first
    name: str  # for people
    title: str = ""  # of one such record, for people, with the same names in braces; empty: the first name of the path
    wakes: Wake | None = None  # None: a World does not show the record
    folder: Access | None = None  # rights at the folder of the first path; None: those of the folders above
    own: Access | None = None  # rights at the record; None: those of its folder
    below: Access | None = None  # rights at all that is below the record; None: those of the record
    empty: bool = False  # the znode may have no data
    numbered: bool = False  # its name is a number of ten digits
    prefixed: bool = False  # with ``numbered``: text without "-", then "-", come before the number
    secret: bool = False  # no command shows its content
    kept: bool = False  # no repair deletes it, for other records count on its version: write it anew

    @property
    def holes(self) -> tuple[str, ...]:
        """The names in braces of the first path."""
        return tuple(_HOLE.findall(self.paths[0]))

    def called(self, *names: str) -> str:
        """One record as people name it; empty for a kind with a single record."""
        title = self.title or (f"{{{self.holes[0]}}}" if self.holes else "")
        return title.format_map(dict(zip(self.holes, names, strict=True)))


class _PathBranch(msgspec.Struct):
    kind: RecordKind | None = None
    below: dict[str, _PathBranch] = {}
    hole: _PathBranch | None = None  # of any name that ``below`` has not


class FoundKind(NamedTuple):
    """The kind of record that belongs at a path, and the names of the path that differ."""

    kind: RecordKind
    names: tuple[str, ...]


class PathTree:
    """Finds the kind that belongs at a path. A part without braces goes before one with braces."""

    def __init__(self, kinds: Iterable[RecordKind]) -> None:
        self._root = _PathBranch()
        for kind in kinds:
            for pattern in kind.paths:
                self._grow(pattern).kind = kind

    def find(self, path: str) -> FoundKind | None:
        """None for a path at which no record belongs."""
        branch, names = self._root, []
        for part in path.split("/")[1:]:
            below = branch.below.get(part)
            if below is None:
                below = branch.hole
                if below is None:
                    return None
                names.append(part)
            branch = below
        return None if branch.kind is None else FoundKind(branch.kind, tuple(names))

    def _grow(self, pattern: str) -> _PathBranch:
        branch = self._root
        for part in pattern.split("/")[1:]:
            if _HOLE.fullmatch(part):
                branch.hole = branch.hole or _PathBranch()
                branch = branch.hole
            else:
                branch = branch.below.setdefault(part, _PathBranch())
        return branch


_NODE: Final = "/ocb/nodes/{node}"
_NODEROLE: Final = "/ocb/nodes/{node}/noderoles/{role}"
_NETWORK: Final = "/ocb/networks/{network}"
_IMAGE: Final = "/nodepool/image/{image}"
_UPLOADS: Final = "/nodepool/image/{image}/builds/{build}/provider/{provider}/images"
_POOL_NODE: Final = "/nodepool/nodes/{pool_node}"
_CHANGE: Final = "cdrw"

#: In the order of the tree, parents first.
KINDS: Final = (
    RecordKind(
        record=Cluster,
        paths=("/ocb/cluster",),
        name="cluster",
        wakes=Wake.NEVER,
        own=Access(annealer="r", builder="r", launcher="r", api="r", requester="r"),
        kept=True,
    ),
    RecordKind(
        record=Structure,
        paths=("/ocb/structure",),
        name="structure",
        wakes=Wake.NEVER,
        own=Access(annealer="rw", launcher="rw", api="rw"),
        kept=True,
    ),
    RecordKind(
        record=Role,
        paths=("/ocb/roles/{role}",),
        name="role",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="r", launcher="r", api=_CHANGE),
    ),
    RecordKind(
        record=Deployment,
        paths=("/ocb/deployments/{deployment}",),
        name="deployment",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="r", launcher="r", api=_CHANGE),
        own=Access(
            annealer="r", launcher="cr", api=_CHANGE
        ),  # the first bind of a cluster role makes the folder of gates
    ),
    RecordKind(
        record=DeploymentRole,
        paths=("/ocb/deployments/{deployment}/roles/{role}",),
        name="deployment role",
        title="{role} in {deployment}",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="drw", launcher="cr", api=_CHANGE),
    ),
    RecordKind(
        record=Gate,
        paths=("/ocb/deployments/{deployment}/clusters/{role}",),
        name="gate",
        wakes=Wake.NEVER,
        folder=Access(annealer="rw", launcher="crw", api=_CHANGE),
        kept=True,
    ),
    RecordKind(
        record=Node,
        paths=(_NODE,),
        name="node",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="dr", launcher="cdr", api=_CHANGE),
        own=Access(annealer=_CHANGE, launcher=_CHANGE, api=_CHANGE),
    ),
    RecordKind(record=Fence, paths=(f"{_NODE}/fence",), name="fence", wakes=Wake.CHANGED, kept=True),
    RecordKind(record=Claim, paths=(f"{_NODE}/claim",), name="claim", wakes=Wake.CHANGED),
    RecordKind(record=MachinePower, paths=(f"{_NODE}/power",), name="power", wakes=Wake.CHANGED, secret=True),
    RecordKind(record=Installation, paths=(f"{_NODE}/installation",), name="installation", wakes=Wake.CHANGED),
    RecordKind(
        record=BootToken, paths=(f"{_NODE}/boottoken",), name="token of a boot", wakes=Wake.CHANGED, secret=True
    ),
    RecordKind(record=Inventory, paths=(f"{_NODE}/inventory",), name="inventory", wakes=Wake.NEVER),
    RecordKind(record=MachineUse, paths=(f"{_NODE}/use",), name="use by a pool", wakes=Wake.CHANGED),
    RecordKind(
        record=NodeRole,
        paths=(_NODEROLE,),
        name="noderole",
        title="{role}@{node}",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="dr", launcher="cdr", api=_CHANGE),
        own=Access(annealer=_CHANGE, launcher=_CHANGE, api=_CHANGE),
    ),
    RecordKind(
        record=None,
        paths=(f"{_NODEROLE}/user",),
        name="attributes",
        title="{role}@{node} (user)",
        own=Access(annealer="r", launcher="r", api=_CHANGE),
    ),
    RecordKind(record=None, paths=(f"{_NODEROLE}/system",), name="attributes", title="{role}@{node} (system)"),
    RecordKind(record=None, paths=(f"{_NODEROLE}/wall",), name="attributes", title="{role}@{node} (wall)"),
    RecordKind(record=Given, paths=(f"{_NODEROLE}/given",), name="inputs of a run", title="{role}@{node}"),
    RecordKind(record=Run, paths=(f"{_NODEROLE}/runs/{{run}}",), name="run", title="{role}@{node} {run}"),
    RecordKind(
        record=Network,
        paths=(_NETWORK,),
        name="network",
        wakes=Wake.NEVER,
        folder=Access(annealer="r", launcher="r", api=_CHANGE),
        own=Access(annealer="r", launcher="r", api=_CHANGE),
    ),
    RecordKind(
        record=NetworkAddress,
        paths=(f"{_NETWORK}/addresses/{{address}}",),
        name="address",
        title="{address} of {network}",
        folder=Access(annealer=_CHANGE, launcher=_CHANGE, api=_CHANGE),
    ),
    RecordKind(
        record=MacOwner,
        paths=("/ocb/macs/{mac}",),
        name="MAC address",
        folder=Access(annealer=_CHANGE, launcher=_CHANGE, api=_CHANGE),
    ),
    RecordKind(
        record=Bootenv,
        paths=("/ocb/bootenvs/{bootenv}",),
        name="boot environment",
        wakes=Wake.CHANGED,
        folder=Access(annealer="r", launcher="r", api=_CHANGE),
    ),
    RecordKind(
        record=Publisher,
        paths=("/ocb/publications/{publisher}",),
        name="publisher",
        wakes=Wake.CHANGED,
        folder=Access(annealer=_CHANGE, launcher="r", api="r"),
    ),
    RecordKind(
        record=Publication,
        paths=("/ocb/publications/{publisher}/{published}",),
        name="publication",
        title="{published} of {publisher}",
        wakes=Wake.CHANGED,
        folder=Access(annealer=_CHANGE, launcher="r", api="r"),
    ),
    RecordKind(
        record=MachineRegistration,
        paths=("/ocb/registrations/{mac}",),
        name="registration",
        folder=Access(api=_CHANGE),
    ),
    RecordKind(
        record=AdoptionRule,
        paths=("/ocb/adoption/{adoption_rule}",),
        name="rule of adoption",
        folder=Access(api=_CHANGE),
    ),
    RecordKind(
        record=Daemon,
        paths=("/ocb/daemons/{daemons}/{daemon}", "/nodepool/daemons/{daemons}/{daemon}"),
        name="daemon",
        wakes=Wake.CHANGED,
    ),
    RecordKind(
        record=DaemonPause,
        paths=("/ocb/paused/{daemons}/{host}", "/nodepool/daemons/paused/{daemons}/{host}"),
        name="pause of daemons",
        title="{daemons}@{host}",
    ),
    RecordKind(
        record=RolloutPointer,
        paths=("/ocb/rollouts/{deployment}",),
        name="rollout",
        wakes=Wake.WRITTEN,
        folder=Access(annealer="r", launcher="r", api=_CHANGE),
        own=Access(annealer="rw", launcher="r", api=_CHANGE),
        below=Access(annealer=_CHANGE, api=_CHANGE),
    ),
    RecordKind(
        record=TaskRunPointer,
        paths=("/ocb/tasks/runs/{deployment}",),
        name="run of tasks",
        wakes=Wake.WRITTEN,
        own=Access(annealer="rw", launcher="r", api=_CHANGE),
        below=Access(annealer=_CHANGE, api=_CHANGE),
    ),
    RecordKind(
        record=None,
        paths=("/ocb/tasks/runs/{deployment}/{task_run}/facts/{name}",),
        name="facts of a run of tasks",
        title="{deployment}/{task_run} {name}",
    ),
    RecordKind(
        record=Entry,
        paths=("/ocb/journal/entries/{entry}", "/ocb/journal/pool/{entry}"),
        name="entry of the journal",
        folder=Access(annealer="cr", launcher="r", api="cdr"),
        numbered=True,
    ),
    RecordKind(
        record=Webhook,
        paths=("/ocb/journal/webhook",),
        name="webhook",
        own=Access(annealer=_CHANGE, api="r"),
        empty=True,
    ),
    RecordKind(
        record=LogKey,
        paths=("/ocb/keys/logs",),
        name="key for logs",
        title="logs",
        folder=Access(api="r"),
        secret=True,
    ),
    RecordKind(record=KeyedCall, paths=("/ocb/calls/{call}",), name="call", folder=Access(api=_CHANGE)),
    RecordKind(record=Token, paths=("/ocb/tokens/{token}",), name="token", folder=Access(api=_CHANGE)),
    RecordKind(record=BuildRequest, paths=(f"{_IMAGE}/request-build",), name="build request", empty=True),
    RecordKind(record=Pause, paths=(f"{_IMAGE}/pause",), name="pause", empty=True),
    RecordKind(
        record=Build, paths=(f"{_IMAGE}/builds/{{build}}",), name="build", title="{image}-{build}", numbered=True
    ),
    RecordKind(
        record=Upload,
        paths=(f"{_UPLOADS}/{{upload}}",),
        name="upload",
        title="{image}-{build} {provider} {upload}",
        numbered=True,
    ),
    RecordKind(
        record=NodeRequest,
        paths=("/nodepool/requests/{request}",),
        name="request for nodes",
        folder=Access(launcher="dr", api=_CHANGE, requester="cdr"),
        own=Access(launcher="rw", api=_CHANGE, requester="rw"),
        numbered=True,
        prefixed=True,
    ),
    RecordKind(
        record=PoolNode,
        paths=(_POOL_NODE,),
        name="node of a pool",
        folder=Access(launcher="cdr", api=_CHANGE, requester="r"),
        own=Access(launcher=_CHANGE, api=_CHANGE, requester="rw"),
        numbered=True,
    ),
    RecordKind(
        record=PoolComponent,
        paths=("/nodepool/components/{component_kind}/{component}",),
        name="component",
        title="{component_kind} {component}",
    ),
    RecordKind(
        record=LockOwner,
        paths=("/nodepool/requests-lock/{request}/{contender}", f"{_POOL_NODE}/lock/{{contender}}"),
        name="lock of a pool",
        empty=True,  # Nodepool and Zuul write none
    ),
    RecordKind(
        record=LockOwner,
        paths=(
            "/ocb/journal/webhook/lock/{contender}",
            "/ocb/rollouts/{deployment}/{rollout}/lock/{contender}",
            "/ocb/tasks/runs/{deployment}/{task_run}/lock/{contender}",
            f"{_IMAGE}/builds/lock/{{contender}}",
            f"{_UPLOADS}/lock/{{contender}}",
        ),
        name="lock",
    ),
)

#: The names of the kinds that lie below a node and go with it, beside its noderoles; claims and fences only keep order.
OF_NODE: Final = tuple(
    row.name
    for row in KINDS
    if row.paths[0].startswith(f"{_NODE}/") and row.holes == ("node",) and row.record not in (Claim, Fence)
)

_TREE: Final = PathTree(KINDS)


def find(path: str) -> FoundKind | None:
    """The kind of this table that belongs at a path, and its names; None for other paths (``store.kinds`` has all rows).

    >>> find("/ocb/nodes/n1.example.com/fence").names, find("/ocb/nodes")
    (('n1.example.com',), None)
    """
    return _TREE.find(path)


#: The rights at folders that belong to no single kind.
FOLDERS: Final = {
    "/": Access(annealer="r", builder="r", launcher="r", api="r", requester="r"),
    "/ocb": Access(annealer="r", launcher="r", api="r"),
    "/ocb/clock": Access(annealer="rw", api="rw"),
    "/ocb/daemons/annealer": Access(annealer=_CHANGE, launcher="r", api="r"),
    "/ocb/daemons/api": Access(annealer="r", launcher="r", api=_CHANGE),
    "/ocb/journal": Access(annealer="r", launcher="r", api="r"),
    "/ocb/journal/pool": Access(annealer="r", launcher="cdr", api="cdr"),
    "/ocb/paused": Access(annealer="r", launcher="r", api=_CHANGE),
    "/ocb/tasks": Access(annealer="r", launcher="r", api=_CHANGE),
    "/nodepool": Access(annealer="r", builder="r", launcher="r", api="r", requester="r"),
    "/nodepool/clock": Access(builder="rw", launcher="rw", api="rw", requester="rw"),
    "/nodepool/components": Access(builder="r", launcher="r", api="r", requester="r"),
    "/nodepool/components/*": Access(builder="r", launcher=_CHANGE, api="r", requester="r"),
    "/nodepool/components/builder": Access(builder=_CHANGE, launcher="r", api="r", requester="r"),
    "/nodepool/daemons/builder": Access(annealer="r", builder=_CHANGE, launcher="r", api="r"),
    "/nodepool/daemons/launcher": Access(annealer="r", builder="r", launcher=_CHANGE, api="r", requester="r"),
    "/nodepool/daemons/paused": Access(annealer="r", builder="r", launcher="r", api=_CHANGE),
    "/nodepool/image": Access(annealer="r", builder=_CHANGE, launcher="r", api=_CHANGE),
    "/nodepool/nodes/*/lock": Access(launcher=_CHANGE, api=_CHANGE, requester="cdr"),
    "/nodepool/requests-lock": Access(launcher="cdr", api=_CHANGE, requester="r"),
}


def granted() -> Iterator[tuple[str, Access]]:
    """The places with rights of their own, ``*`` for any one name; parents before children."""
    found = dict(FOLDERS)
    for kind in KINDS:
        own = _HOLE.sub("*", kind.paths[0])
        places = (own.rpartition("/")[0], kind.folder), (own, kind.own), (f"{own}/*", kind.below)
        found |= {place: access for place, access in places if access is not None}
    return ((place, found[place]) for place in sorted(found))

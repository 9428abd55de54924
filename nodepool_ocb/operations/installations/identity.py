"""``installation identity``: an installer shows the token of its boot, one time, and gets its order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.errors import Conflict, Denied, Invalid
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.records import Change, Create, Delete, Json, Set
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations import assignments
from nodepool_ocb.operations.installations.progress import under_way
from nodepool_ocb.operations.names import node_of
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.tokens import DrawSecret, EnsureTokens, FoundTokens, FreshSecret, ReadTokens
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import installation as steps
from nodepool_ocb.provisioning import nearness, publications
from nodepool_ocb.views.provisioning.installations import InstallerOrder

NAMED: Final = 3  # servers in one sentence
#: From the deadline of a rescue or an erasure to the end of its token: an annealer that comes late gives more time.
LATER_SECONDS: Final = 86400.0


class InstallationIdentity(Operation[InstallerOrder], frozen=True, kw_only=True):
    """Exchange the token of a boot for the order of the installation, and for a token of the machine itself.

    Only a repetition by the same boot is answered again. Any other second use of the token fails the installation.
    """

    noun = "installation"
    verb = "identity"
    right = Right.ADMIN
    reads = (ReadWorld, ReadTokens, DrawSecret, EnsureTokens)
    writes = ("installation", "token of a boot", "token")
    confidential = True

    node: str
    mac: str  # of the card that it booted from
    boot_id: str
    host_key: str  # "TYPE KEY" of the new disk

    def decide(self, situation: Situation) -> Steps[InstallerOrder]:
        world = yield from ReadWorld()
        view = node_of(world, self.node)
        found = under_way(view)
        if situation.by != installing.caller(found.record):
            raise Denied(f"only the installer of {self.node} may ask for its identity, with the token of its boot")
        self._refuse_oddities()
        if wrong := self._wrong(view, found.record):
            yield [Set(paths.installation(view.name), steps.failed(found.record, wrong), found.version)]
            raise Conflict(f"the installation of {self.node} has failed: {wrong}")
        held = yield from ReadTokens()
        drawn = yield from DrawSecret()
        yield from EnsureTokens()
        yield list(self._changes(view, found, held, drawn, situation))
        return InstallerOrder(
            token=tokens.text(drawn.id, drawn.secret), order=_order(world, found.record, self.node, situation.call.host)
        )

    def _refuse_oddities(self) -> None:
        try:
            assignments.host_keys((self.host_key,))
        except ValueError as wrong:
            raise Invalid(str(wrong)) from None
        if not 0 < len(self.boot_id) <= 100 or not self.boot_id.isprintable():
            raise Invalid("boot_id must be the boot id of the machine, as /proc/sys/kernel/random/boot_id has it")

    def _wrong(self, view: NodeView, record: Installation) -> str | None:
        """Why this boot is not the one that the installation caused."""
        step, mac = InstallStep.IDENTIFIED, self.mac.lower()
        if record.token_used is not None and not self._repeats(record):
            return (
                f"the token of the boot was used a second time, by boot {self.boot_id} with MAC {mac}: the machine booted the"
                f" installer again, or a stranger has the token{_older_scripts(view, record)}"
            )
        macs = installing.macs(view)
        if mac not in macs:
            return f"step {step}: the installer booted with MAC {mac}, and the node has {', '.join(macs) or 'none'}"
        if record.token_used is None and not _erasable(view, record):
            return f"step {step}: allow_install of the node was taken back before a disk was erased"
        if record.step not in installing.AWAITS_INSTALLER and not self._repeats(record):
            return f"step {step}: an installer spoke at step {record.step}"
        if self.boot_id == record.boot_id:
            return f"step {step}: the installer has the boot id of the system before it"
        return None

    def _repeats(self, record: Installation) -> bool:
        """Whether its first answer may have been lost."""
        same = (self.boot_id, self.host_key, self.mac.lower()) == (
            record.installer_boot_id,
            record.host_key,
            record.mac,
        )
        return same and record.step is InstallStep.IDENTIFIED

    def _changes(
        self, view: NodeView, found: Stored[Installation], held: FoundTokens, drawn: FreshSecret, situation: Situation
    ) -> Iterator[Change]:
        record, now = found.record, situation.now
        name = tokens.of_machine(view.name)
        fields = {
            "mac": self.mac.lower(),
            "installer_boot_id": self.boot_id,
            "host_key": self.host_key,
            "token_used": now,
        }
        first = record.token_used is None
        after = (
            steps.advanced(record, InstallStep.IDENTIFIED, now, **fields) if first else replace(record, token_used=now)
        )
        ends = None if record.purpose is InstallPurpose.INSTALL else after.deadline + LATER_SECONDS
        for id, stored in held.readable.items():  # of an earlier installation, or of the answer that was lost
            kept = (
                record.purpose is InstallPurpose.RESCUE and stored.record.expires is None
            )  # the system on the disk has it
            if stored.record.name == name and stored.record.role is TokenRole.NODE and not kept:
                yield Delete(paths.token(id), stored.version)
        secret = (tokens.split(tokens.text(drawn.id, drawn.secret)) or ("", ""))[1]
        token = Token(
            name=name,
            role=TokenRole.NODE,
            digest=tokens.digest(secret),
            selector=f"name:{view.name}",
            life=view.record.epoch_base if view.record is not None else None,
            created=max(now, installing.tokens_from(view)),  # a leader with another clock may have begun the use
            by=situation.by,
            expires=ends,
        )
        yield Create(paths.token(drawn.id), token)
        yield Set(paths.installation(view.name), after, found.version)
        if (boot := installing.boot_token(view)) is not None:
            yield Delete(paths.boot_token(view.name), boot.version)


def _older_scripts(view: NodeView, record: Installation) -> str:
    """The servers that may have booted the installer again; empty if there is none."""
    names = publications.outdated(view.world, view.name, record.since)
    if not names:
        return ""
    have = "has" if len(names) == 1 else "have"
    return f"; {some(names, NAMED)} {have} boot files of it from before step {record.step}, and may have booted it"


def _erasable(view: NodeView, record: Installation) -> bool:
    """Whether the node still has leave for the work of this boot."""
    vertex = view.world.vertex(record.noderole)
    needed = vertex is None or installing.erases(vertex)
    return not needed or (view.record is not None and view.record.allow_install)


def _order(world: World, record: Installation, fqdn: str, caller: str) -> dict[str, Json]:
    """The order for this boot. The image comes from the nearest server, and from each other one if that fails."""
    key = f"{record.noderole.partition('@')[0]}@{record.generation}"
    order = {**record.order, "epoch": record.epoch, "epoch_key": key}
    if isinstance(paths_of_image := order.get("image"), list):
        order["image"] = [url for each in paths_of_image for url in nearness.sources(world, fqdn, caller, str(each))]
    return order

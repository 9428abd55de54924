"""``registration list``, ``show``, ``refuse`` and ``delete``: the machines that wait."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Delete, Set
from nodepool_ocb.operations.joining.finding import registration_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import ReadMacOwners, ReadRegistrations
from nodepool_ocb.views.provisioning import joining as shown
from nodepool_ocb.views.provisioning.joining import RegistrationDocument, RegistrationRow

LONGEST_REASON: Final = 300  # letters


class RegistrationList(Operation[list[RegistrationRow]], frozen=True, kw_only=True):
    """Every registered machine, with the reason why it waits; those that wait come first."""

    noun = "registration"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadRegistrations,)

    def decide(self, situation: Situation) -> Steps[list[RegistrationRow]]:
        found = yield from ReadRegistrations()
        return shown.rows({mac: each.record for mac, each in found.items()}, situation.now)


class RegistrationShow(Operation[RegistrationDocument], frozen=True, kw_only=True):
    """One registered machine, with its facts."""

    noun = "registration"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadRegistrations,)

    mac: str

    def decide(self, situation: Situation) -> Steps[RegistrationDocument]:
        found = yield from ReadRegistrations()
        mac, stored = registration_of(found, self.mac)
        return shown.document(mac, stored.record, situation.now)


class RegistrationRefuse(Operation[Explained], frozen=True, kw_only=True):
    """Refuse a machine that waits. No rule and no person makes it a node until its registration is deleted."""

    noun = "registration"
    verb = "refuse"
    right = Right.OPERATOR
    reads = (ReadRegistrations, ReadMacOwners)
    writes = ("registration",)

    mac: str
    reason: str

    def decide(self, situation: Situation) -> Steps[Explained]:
        """Raises Conflict for the machine of a node."""
        found = yield from ReadRegistrations()
        mac, stored = registration_of(found, self.mac)
        machine, reason = stored.record, self.reason.strip()[:LONGEST_REASON]
        if not reason:
            raise Invalid("reason: it is empty; write why the machine is refused")
        owners = yield from ReadMacOwners(machine.macs)
        if machine.node is not None and machine.node in owners.values():  # else that node was deleted
            raise Conflict(
                f"machine {mac} is node {machine.node}; delete the node before: nodepool-ocb node delete {machine.node}"
            )
        if machine.refused != reason:
            refused = replace(machine, node=None, refused=reason, refused_by=situation.by, reason=None)
            yield [Set(paths.registration(mac), refused, stored.version)]
        return Explained()


class RegistrationDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete a registration. A machine that waits, or was refused, registers again; the node of an adopted one stays."""

    noun = "registration"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadRegistrations,)
    writes = ("registration",)

    mac: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        found = yield from ReadRegistrations()
        mac, stored = registration_of(found, self.mac)
        yield [Delete(paths.registration(mac), stored.version)]
        return Explained()

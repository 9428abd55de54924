"""``power rotate``: another password for the BMCs of machines."""

from __future__ import annotations

from msgspec.structs import replace

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.selection import together
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.power import MachinePower, PowerAction
from nodepool_ocb.model.records import Change, Json, Set
from nodepool_ocb.operations import selection
from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.power.requesting import PowerAsked
from nodepool_ocb.operations.power.setting import PLACE
from nodepool_ocb.operations.reads.power import DrawPassword, DrawRequest
from nodepool_ocb.operations.reads.world import ReadWorld

ROTATING = ("redfish", "ipmi")  # the drivers with accounts


class PowerRotate(Operation[PowerAsked], frozen=True, kw_only=True):
    """Give the BMCs of machines new passwords, drawn here. An annealer sets each at its BMC.

    The new password is stored, encrypted, before the BMC is given it. Until a login confirms it, the record has both. A further
    rotation uses the stored one again.
    """

    noun = "power"
    verb = "rotate"
    right = Right.ADMIN
    reads = (ReadWorld, selection.ResolveNodes, DrawRequest, DrawPassword)
    writes = ("power",)

    nodes: tuple[str, ...] = ()
    selector: str | None = None

    def decide(self, situation: Situation) -> Steps[PowerAsked]:
        world = yield from ReadWorld()
        chosen = yield from selection.nodes(world, self.nodes, self.selector)
        records = {view.name: powering.record_of(world, view.name) for view in chosen}
        if wrong := [f"{name}: {why}" for name, each in records.items() if (why := _refused(each.record))]:
            raise Invalid(wrong)
        id = yield from DrawRequest()
        drawn: dict[str, Json] = {}
        for name, each in records.items():
            drawn[name] = each.record.fresh or (yield from DrawPassword(PLACE, name))

        def one(view: NodeView) -> list[Change]:
            stored = records[view.name]
            request = powering.request(id, PowerAction.ROTATE, situation.by, situation.now)
            after = powering.asked(stored.record, request)
            if after == stored.record:
                return []
            return [Set(paths.power(view.name), replace(after, fresh=drawn[view.name]), stored.version)]

        yield from together.decided(world, chosen, one)
        return PowerAsked(request=None if situation.call.dry_run else id, nodes=tuple(records))


def _refused(record: MachinePower) -> str | None:
    """Why the password cannot be changed here."""
    if record.driver not in ROTATING:
        return f"driver {record.driver} has no password that a BMC could change; known are {', '.join(ROTATING)}"
    text = secrecy.text_of(record.password)
    if text is None:
        return "it has no password yet; set it: nodepool-ocb power set NODE password=-"
    if not secrecy.encrypted(text):
        return f"its password is the reference {text}; change it there and at the BMC, or set a password here first"
    return None

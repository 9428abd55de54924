"""``adoption set``, ``delete``, ``list``, ``show`` and ``check``: the rules that make nodes of machines."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import AdoptionRule
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.model.records import Create, Delete, Set
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations.joining.finding import rule_of
from nodepool_ocb.operations.names import deployment_of, role_of
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import EnsureJoining, ReadAdoptionRules, ReadMacOwners, ReadRegistrations
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning.joining import adoption, registrations, ruling
from nodepool_ocb.views.provisioning import joining as shown
from nodepool_ocb.views.provisioning.joining import AdoptionDocument, AdoptionRow, ForecastRow

KEYS = ruling.KEYS
MOST = 100


class AdoptionSet(Operation[Explained], frozen=True, kw_only=True):
    """Create or change a rule of adoption. It is checked as a whole, and counts for machines that wait already."""

    noun = "adoption"
    verb = "set"
    right = Right.ADMIN
    reads = (ReadWorld, ReadAdoptionRules, EnsureJoining)
    writes = ("rule of adoption",)

    rule: str
    assignments: tuple[str, ...]  # KEY=VALUE

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        found = yield from ReadAdoptionRules()
        if not is_name(self.rule):
            raise Invalid(
                f"{self.rule!r} can be no name of a rule: small letters, digits, '-', '_' and '.', at most 63"
            )
        before = found.get(self.rule)
        base = AdoptionRule(name="") if before is None else before.record
        after = adoption.checked(ruling.assigned(base, assigning.pairs(self.assignments)))
        if not after.name:
            raise Invalid("name: a rule needs a template of names; give name=web-{n:03}.example.com")
        self._refuse_unknown(world, after)
        yield from EnsureJoining()
        place = paths.adoption_rule(self.rule)
        if before is None:
            if len(found) >= MOST:
                raise Invalid(f"there are {len(found)} rules, the most; delete some: nodepool-ocb adoption list")
            yield [Create(place, after)]
        elif after != before.record:
            yield [Set(place, after, before.version)]
        return Explained()

    def _refuse_unknown(self, world: World, rule: AdoptionRule) -> None:
        """Raises NotFound, with the nearest name."""
        deployment_of(world, rule.deployment)
        for role in (*rule.commission, *rule.roles):
            role_of(world, role)


class AdoptionDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete a rule of adoption; the nodes that it made stay."""

    noun = "adoption"
    verb = "delete"
    right = Right.ADMIN
    reads = (ReadAdoptionRules,)
    writes = ("rule of adoption",)

    rule: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        found = yield from ReadAdoptionRules()
        yield [Delete(paths.adoption_rule(self.rule), rule_of(found, self.rule).version)]
        return Explained()


class AdoptionList(Operation[list[AdoptionRow]], frozen=True, kw_only=True):
    """Every rule of adoption, in the order in which they count."""

    noun = "adoption"
    verb = "list"
    right = Right.VIEWER
    reads = (ReadAdoptionRules,)

    def decide(self, situation: Situation) -> Steps[list[AdoptionRow]]:  # noqa: ARG002
        found = yield from ReadAdoptionRules()
        return shown.rules({name: each.record for name, each in found.items()})


class AdoptionShow(Operation[AdoptionDocument], frozen=True, kw_only=True):
    """One rule of adoption."""

    noun = "adoption"
    verb = "show"
    right = Right.VIEWER
    reads = (ReadAdoptionRules,)

    rule: str

    def decide(self, situation: Situation) -> Steps[AdoptionDocument]:  # noqa: ARG002
        found = yield from ReadAdoptionRules()
        return AdoptionDocument(name=self.rule, record=rule_of(found, self.rule).record)


class AdoptionCheck(Operation[list[ForecastRow]], frozen=True, kw_only=True):
    """The rule and the name for each machine that waits, without a change; or the reason why no rule fits."""

    noun = "adoption"
    verb = "check"
    right = Right.VIEWER
    reads = (ReadWorld, ReadRegistrations, ReadAdoptionRules, ReadMacOwners)

    def decide(self, situation: Situation) -> Steps[list[ForecastRow]]:
        world = yield from ReadWorld()
        found = yield from ReadRegistrations()
        rules = yield from ReadAdoptionRules()
        waiting = {
            mac: each.record for mac, each in found.items() if each.record.node is None and not each.record.refused
        }
        macs = tuple(mac for each in waiting.values() for mac in each.macs)
        owners = yield from ReadMacOwners(macs)
        taken = {*world.nodes}
        rows: list[ForecastRow] = []
        records: Mapping[str, AdoptionRule] = {name: each.record for name, each in rules.items()}
        for mac, machine in sorted(waiting.items()):
            if (doubt := registrations.doubt(machine, situation.now)) is not None:
                rows.append(ForecastRow(mac=mac, rule=None, node=None, reason=doubt))
                continue
            planned = next((owners[each] for each in machine.macs if each in owners), None)
            chosen = adoption.chosen(records, machine)
            name, reason = planned, f"node {planned} has its MAC" if planned else chosen.reason
            if planned is None and chosen.rule is not None:
                try:
                    name = adoption.node_name(chosen.rule, machine, taken)
                    taken.add(name)
                except OcbError as fault:
                    reason = str(fault)
            rows.append(ForecastRow(mac=mac, rule=None if planned else chosen.name, node=name, reason=reason))
        return rows

"""What a driver writes: whole rounds in one transaction where it bears them, in parts where not, and never too much."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.noderole import settled
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.limits import fits
from nodepool_ocb.model.records import Change, Check, Deployment, Node, NodeRole, Record, RolloutPointer, Set, State
from nodepool_ocb.rollout import records
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.rollout.selectors import inventory
from nodepool_ocb.rollout.strategy import Strategy
from nodepool_ocb.store.client import codec, transaction
from nodepool_ocb.store.rollouts import Versions
from nodepool_ocb.store.world.paths import parse
from nodepool_ocb_annealer.driving.work import DrivingStep
from nodepool_ocb_annealer.rollouts.rolling import DrivenRollout, move
from tests.journeys.staging import document

LAB, ID = "lab", "0000000001"
LONG = "x" * 190  # a reason that is worth reading


class Simulated:
    """ZooKeeper, as far as a driver needs it, and machines that do at once what they are told."""

    def __init__(self, strategy: Strategy, nodes: int, failing: Mapping[str, str] | None = None) -> None:
        self.world = World()
        self.failing = failing or {}
        self.writes: list[int] = []
        for name, above in (("system", None), (LAB, "system")):
            self.world.put(Stored(Deployment(parent=above), 0), name)
        for number in range(nodes):
            fqdn = f"n{number:05}.x.y"
            self.world.put_node(fqdn, Node(deployment=LAB, alive=True), 0)
            for role, parents in (("os", ()), ("app", (f"os@{fqdn}",))):
                record = NodeRole(state=State.PROPOSED, since=0.0, deployment=LAB, parents=parents)
                self.world.put_noderole(fqdn, role, record, 0)
        begun = begin(strategy, inventory(self.world, LAB), 0.0)
        made = {paths.rollout(LAB, ID, part): record for part, record in records.parts(begun).items()}
        made[paths.rollouts(LAB)] = RolloutPointer(newest=ID, over=False)
        self.znodes: dict[str, tuple[Record, int]] = {path: (record, 3) for path, record in made.items()}

    def read(self) -> DrivenRollout:
        """As another driver that takes over."""
        prefix = paths.rollout(LAB, ID)
        parts = {path[len(prefix) + 1 :]: each for path, each in self.znodes.items() if path.startswith(prefix)}
        head, version = parts.pop("")
        assert isinstance(head, RolloutRecord)
        groups = {part[7:]: record for part, (record, _) in parts.items() if isinstance(record, GroupRecord)}
        nodes = [record for _, (record, _) in sorted(parts.items()) if isinstance(record, NodesRecord)]
        rollouts, of_these = self.znodes[paths.rollouts(LAB)]
        assert isinstance(rollouts, RolloutPointer)
        versions = {"": version} | {part: number for part, (_, number) in parts.items()}
        return DrivenRollout(LAB, ID, records.whole(head, groups, nodes), Versions(rollouts, of_these, versions))

    def write(self, changes: list[Change]) -> None:
        transaction.pack(changes, "", b"")  # refuses what is too large
        assert fits(changes)
        assert isinstance(changes[0], Check | Set)
        assert changes[0].path == paths.rollouts(LAB), "it is held to the version that orders all writers"
        assert len({change.path for change in changes}) == len(changes)
        for change in changes:
            if self._version(change.path) != change.version:  # type: ignore[union-attr]
                raise Stale(change.path, change.path)
        for change in changes:
            if isinstance(change, Set) and isinstance(change.data, NodeRole):
                at = parse(change.path)
                assert at is not None
                self.world.put_noderole(at.name, at.below, change.data, change.version + 1)
            elif isinstance(change, Set):
                assert len(codec.encode(change.data)) <= transaction.RECORD_BYTES
                self.znodes[change.path] = change.data, change.version + 1
        self.writes.append(len(changes))

    def _version(self, path: str) -> int:
        at = parse(path)
        if at is not None and at.kind is NodeRole:
            return self.world.nodes[at.name].noderoles[at.below].version
        return self.znodes[path][1]

    def work(self, chance: Random | None = None) -> bool:
        """What is TODO is done, or some of it, and what waits for it is TODO; whether anything moved."""
        moved = False
        for vertex in list(self.world.vertices()):
            record = settled(vertex.record, vertex.waiting, 0.0)
            if record.state is State.TODO and (chance is None or chance.random() < 0.5):
                lost = self.failing.get(vertex.name)
                record = record.amended(state=State.ERROR if lost else State.ACTIVE, reason=lost)
            if record is not vertex.record:
                self.world.put_noderole(vertex.node.name, vertex.role, record, vertex.version + 1)
                moved = True
        return moved


def drive(there: Simulated, chance: Random | None = None) -> DrivenRollout:
    """Until it is over; with ``chance`` drivers die between any two transactions, and machines are slow."""
    driven = there.read()
    for _ in range(10_000):
        found = move(there.world, driven, 1.0)
        if found.quiet and chance is None and there.work():
            continue  # a driver waits a while whether more comes back
        if found.changes:
            there.write(list(found.changes))
            driven = found.after
            assert driven == there.read(), "who goes on knows what was written without reading"
        if driven.rollout.over:
            return driven
        if chance is not None and chance.random() < 0.5:
            driven = there.read()
        if not found.changes or chance is not None:
            there.work(chance)
    raise AssertionError("it does not end")


def outcome(driven: DrivenRollout) -> Any:
    return (
        driven.rollout.head.state,
        {name: (record.state, record.reason) for name, record in driven.rollout.groups.items()},
        {name: (progress.state, progress.passed) for name, progress in driven.rollout.nodes.items()},
    )


def test_a_small_group_goes_out_with_its_noderoles_in_one_transaction() -> None:
    there = Simulated(document([{"name": "all", "critical": True}]), 3)
    drive(there)
    # begun, prepare, os sent; prepared, app sent; the end
    assert len(there.writes) == 3


@pytest.mark.parametrize("count", [1000, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("lost", [False, True])
def test_a_group_of_thousands_goes_out_in_parts(lost: bool, count: int) -> None:
    failing = {f"app@n{number:05}.x.y": LONG for number in range(count)} if lost else {}
    there = Simulated(document([{"name": "all"}, {"name": "again", "depends_on": ["all"]}]), count, failing)
    driven = drive(there)
    assert {str(progress.state) for progress in driven.rollout.nodes.values()} == {"failure" if lost else "success"}
    assert {vertex.record.generation for vertex in there.world.vertices()} == {1}
    assert len(there.writes) > 2 * count / 300, "at most 250 noderoles at once"


@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_hundreds_of_groups_end_in_few_transactions(count: int) -> None:
    groups = [{"name": f"g{number:04}", "selectors": [{"node_names": [f"n{number:05}"]}]} for number in range(count)]
    there = Simulated(document(groups, parallel_groups=count), count)
    driven = drive(there)
    assert {str(record.state) for record in driven.rollout.groups.values()} == {"success"}
    assert len(there.writes) < count / 25


@pytest.mark.parametrize("seed", range(30))
def test_drivers_that_die_between_any_two_transactions_end_in_the_same_place(seed: int) -> None:
    chance = Random(seed)
    failing = {
        f"{role}@n{number:05}.x.y": LONG for number in range(40) for role in ("os", "app") if not chance.randrange(9)
    }
    groups = [
        {
            "name": f"g{number}",
            "critical": bool(number % 2),
            "depends_on": [f"g{number - 2}"] if number > 1 else [],
            "selectors": [{"node_names": [f"n{each:05}" for each in range(number * 7, number * 7 + 12)]}],
            "success_criteria": {"percent_successful_nodes": chance.choice([0, 80, 100])},
        }
        for number in range(5)
    ]
    rules = document(groups, max_in_flight=chance.choice([{}, {"nodes": 5}, {"group": 2}]))
    straight = drive(Simulated(rules, 40, failing))
    there = Simulated(rules, 40, failing)
    assert outcome(drive(there, Random(seed + 1000))) == outcome(straight)
    assert max(vertex.record.generation for vertex in there.world.vertices()) == 1


def test_what_somebody_else_wrote_meanwhile_refuses_the_driver() -> None:
    there = Simulated(document([{"name": "all"}]), 3)
    driven = there.read()
    found: DrivingStep[DrivenRollout] = move(there.world, driven, 1.0)
    rollouts, version = there.znodes[paths.rollouts(LAB)]
    there.znodes[paths.rollouts(LAB)] = rollouts, version + 1
    with pytest.raises(Stale):
        there.write(list(found.changes))


def test_nodes_that_came_back_wait_for_others_where_nothing_follows() -> None:
    there = Simulated(document([{"name": "all"}]), 3)
    driven = there.read()
    for _ in range(2):
        found = move(there.world, driven, 1.0)
        there.write(list(found.changes))
        driven = found.after
        there.work()
    vertex = there.world.vertex("app@n00001.x.y")
    assert vertex is not None
    there.world.put_noderole("n00001.x.y", "app", replace(vertex.record, state=State.TRANSITION), vertex.version + 1)
    found = move(there.world, driven, 1.0)
    came_back = [node for node, each in found.after.rollout.nodes.items() if each != driven.rollout.nodes[node]]
    assert (found.quiet, came_back) == (True, ["n00000.x.y", "n00001.x.y", "n00002.x.y"])
    there.work()
    there.world.put_noderole("n00001.x.y", "app", replace(vertex.record, state=State.ACTIVE), vertex.version + 1)
    assert not move(there.world, driven, 1.0).quiet, "the group goes on"


def test_drivers_that_die_between_the_parts_of_a_large_round_end_in_the_same_place() -> None:
    failing = {f"app@n{number:05}.x.y": LONG for number in range(0, 900, 3)}
    rules = document([{"name": "all"}, {"name": "again", "depends_on": ["all"]}])
    straight = drive(Simulated(rules, 900, failing))
    there = Simulated(rules, 900, failing)
    assert outcome(drive(there, Random(1))) == outcome(straight)
    assert {vertex.record.generation for vertex in there.world.vertices()} == {1}

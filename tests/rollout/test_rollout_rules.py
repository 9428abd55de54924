"""Strategies against the seed's rules, told slowly, in the orders that dependencies allow: four hundred, and two thousand
with ``--long``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout import commands, criteria
from nodepool_ocb.rollout.criteria import Count
from nodepool_ocb.rollout.plan import begin, plan
from nodepool_ocb.rollout.records import Decision, Rollout
from nodepool_ocb.rollout.step import step
from nodepool_ocb.rollout.strategy import Criteria, Strategy
from tests.fixtures.examples import spread
from tests.rollout.simulation import Driver, Machines, Slow, ended, failing

STRATEGIES = 2000
ORDERS = 4
BLOCKS = 20


class Case:
    """A strategy as a plain document, nodes, and which of them fail where."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        pick = self.chance
        count = pick.choice([0, 1, 2, 3, 5, 8, 13])
        self.nodes = {self._name(number): self._node() for number in range(count)}
        names = [f"g{number}" for number in range(pick.randint(1, 6))]
        pick.shuffle(names)
        self.groups = [self._group(name, names[:place]) for place, name in enumerate(names)]
        pick.shuffle(self.groups)
        rate = pick.choice([0.0, 0.1, 0.5, 1.0])
        self.lost = {(name, phase) for name in self.nodes for phase in (0, 1) if pick.random() < rate}

    def _name(self, number: int) -> str:
        return f"n{number}.{self.chance.choice(['a', 'b'])}.example.com"

    def _node(self) -> Node:
        pick = self.chance
        tags = tuple(tag for tag in ("control", "compute") if pick.random() < 0.5)
        labels = {"zone": pick.choice("xy")} if pick.random() < 0.7 else {}
        return Node(tags=tags, labels=labels, rack=pick.choice(["r1", "r2", None]))

    def _group(self, name: str, above: Sequence[str]) -> dict[str, Any]:
        pick = self.chance
        group: dict[str, Any] = {
            "name": name,
            "critical": pick.random() < 0.5,
            "depends_on": [each for each in above if pick.random() < 0.4],
            "selectors": [self._selector() for _ in range(pick.choice([0, 1, 1, 1, 2, 3]))],
        }
        if pick.random() < 0.8:
            group["success_criteria"] = self._criteria()
        return group

    def _selector(self) -> dict[str, list[str]]:
        pick = self.chance
        known = [pick.choice([name, name.split(".")[0]]) for name in self.nodes]
        choices = {
            "node_names": [*known, "nobody"],
            "node_tags": ["control", "compute", "storage"],
            "node_labels": ["zone:x", "zone:y", "zone:z"],
            "rack_names": ["r1", "r2", "r3"],
        }
        return {
            key: pick.sample(values, min(len(values), pick.randint(0, 3)))
            for key, values in choices.items()
            if pick.random() < 0.4
        }

    def _criteria(self) -> dict[str, int]:
        pick = self.chance
        edges = {
            "percent_successful_nodes": pick.choice([0, 1, 33, 34, 50, 66, 67, 99, 100, pick.randint(0, 100)]),
            "minimum_successful_nodes": pick.choice([0, 1, 2, len(self.nodes), len(self.nodes) + 1]),
            "maximum_failed_nodes": pick.choice([0, 0, 1, 2, len(self.nodes)]),
        }
        return {key: value for key, value in edges.items() if pick.random() < 0.5}

    def orders(self) -> Iterator[list[str]]:
        """Orders that the dependencies allow, by chance; bounded."""
        for _ in range(ORDERS):
            left = {group["name"]: set(group["depends_on"]) for group in self.groups}
            order: list[str] = []
            while left:
                ready = sorted(name for name, above in left.items() if not above)
                order.append(self.chance.choice(ready))
                del left[order[-1]]
                for above in left.values():
                    above.discard(order[-1])
            yield order

    def strategy(self, order: Sequence[str] | None = None) -> Strategy:
        """The groups in this order: of those that are ready, the engine takes the first."""
        by_name = {group["name"]: group for group in self.groups}
        groups = [by_name[name] for name in order] if order else self.groups
        return msgspec.convert({"groups": groups}, Strategy)


def sent(driver: Driver) -> list[tuple[str, str, str]]:
    """(phase, node, group) of every node that was sent, by what the decisions say."""
    found = []
    for decision in driver.log:
        if decision.reason.startswith("sent: "):
            verb, group = decision.reason.removeprefix("sent: ").split(" of group ")
            found.append((verb, decision.name, group))
    return found


@pytest.mark.parametrize("block", spread(range(BLOCKS), 4))
def test_groups_nodes_and_results_are_those_of_the_slow_rules(block: int) -> None:
    for seed in range(block, STRATEGIES, BLOCKS):
        case = Case(seed)
        for order in case.orders():
            slow = Slow(case.groups, case.nodes, case.lost)
            result = slow.run(order)
            strategy = case.strategy(order)
            driver = Driver(begin(strategy, case.nodes, 0.0), Machines(failing(*case.lost)))
            rollout = driver.run()
            about = (seed, order)
            assert rollout.head.state == result, about
            verdicts = {name: record.reason or str(record.state) for name, record in rollout.groups.items()}
            assert verdicts == slow.verdict, about
            assert {name: str(progress.state) for name, progress in rollout.nodes.items()} == slow.status, about
            assert {name: list(nodes) for name, nodes in rollout.members.items()} == {
                group["name"]: slow.members(group) for group in case.groups
            }, about
            assert sent(driver) == slow.sent, about
            assert max(driver.machines.starts.values(), default=0) <= 1, about


@pytest.mark.parametrize("block", spread(range(4), 1))
def test_a_successor_after_a_crash_reaches_the_same_state(block: int) -> None:
    for seed in range(block, 200, 4):
        case = Case(seed)
        strategy = msgspec.structs.replace(case.strategy(), **features(case.chance))
        straight = Driver(begin(strategy, case.nodes, 0.0), Machines(failing(*case.lost)))
        straight.run()
        for again in range(3):
            crashing = Driver(begin(strategy, case.nodes, 0.0), Machines(failing(*case.lost)), Random(again))
            crashing.run()
            assert ended(crashing.rollout) == ended(straight.rollout), (seed, again)
            assert max(crashing.machines.starts.values(), default=0) <= 1, (seed, again)


def features(chance: Random) -> dict[str, Any]:
    """Of our own additions those whose end does not depend on how fast the machines are."""
    return msgspec.convert(
        {
            "stop_early": chance.random() < 0.3,
            "on_critical_failure": chance.choice(["continue", "stop", "cancel"]),
            "max_in_flight": chance.choice([{}, {"nodes": 2}, {"group": 1}, {"rack": 1}, {"labels": {"zone": 2}}]),
            "breaker": chance.choice([{}, {}, {"maximum_failed_nodes": 1}, {"maximum_failed_percent": 30}]),
        },
        Features,
    ).fields()


class Features(Strategy, frozen=True, kw_only=True):
    """A strategy's rules alone."""

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("stop_early", "on_critical_failure", "max_in_flight", "breaker")}


def test_twenty_nine_of_a_hundred_are_twenty_nine_percent() -> None:
    nodes = {f"n{number:03}.example.com": Node() for number in range(100)}
    lost = {(name, 1) for name in list(nodes)[29:]}
    for percent, state in ((29, "success"), (30, "failed")):
        group = {"name": "g", "critical": True, "success_criteria": {"percent_successful_nodes": percent}}
        strategy = msgspec.convert({"groups": [group]}, Strategy)
        rollout = Driver(begin(strategy, nodes, 0.0), Machines(failing(*lost))).run()
        assert rollout.head.state == state
    assert rollout.groups["g"].unmet == ("percent_successful_nodes: 30 wanted, 29 of 100 (29%) successful",)


def test_a_plan_says_what_the_rollout_will_find() -> None:
    for seed in range(300):
        case = Case(seed)
        slow = Slow(case.groups, case.nodes, set())
        made = plan(case.strategy(), case.nodes)
        members = {group["name"]: slow.members(group) for group in case.groups}
        assert {name: list(nodes) for name, nodes in made.members.items()} == members
        assert set(made.ungrouped) == set(case.nodes) - {node for nodes in members.values() for node in nodes}
        common = {(each.first, each.second): each.nodes for each in made.overlaps}
        assert common == {
            (first, second): len(set(members[first]) & set(members[second]))
            for place, first in enumerate(members)
            for second in islice(members, place + 1, None)
            if set(members[first]) & set(members[second])
        }
        assert set(made.unmet) == {group["name"] for group in case.groups if least(group) > len(members[group["name"]])}
        levels = {name: row for row, names in enumerate(made.levels) for name in names}
        for group in case.groups:
            above = [levels[each] for each in group["depends_on"]]
            assert levels[group["name"]] == max(above, default=-1) + 1


def least(group: Mapping[str, Any]) -> int:
    return int(group.get("success_criteria", {}).get("minimum_successful_nodes", 0))


# -- everything at once, with crashes, slow machines and people: what must hold however it goes --


def anything(chance: Random) -> dict[str, Any]:
    """Rules of every kind."""
    return {
        "parallel_groups": chance.choice([1, 2, 5]),
        "stop_early": chance.random() < 0.4,
        "on_critical_failure": chance.choice(["continue", "stop", "cancel"]),
        "on_timeout": chance.choice(["fail", "evaluate"]),
        "max_in_flight": chance.choice([{}, {"nodes": 3}, {"group": 2}, {"rack": 1, "labels": {"zone": 2}}]),
        "breaker": chance.choice([{}, {}, {"maximum_failed_nodes": 2}, {"maximum_failed_percent": 30}]),
    }


def of_group(chance: Random) -> dict[str, Any]:
    return {
        **({"parallel_nodes": chance.randint(1, 3)} if chance.random() < 0.3 else {}),
        **({"batches": [{"nodes": 1, "pause": True}, {"percent": 50}]} if chance.random() < 0.3 else {}),
        **({"timeouts": {"deploy": 100.0}} if chance.random() < 0.3 else {}),
    }


def ask(driver: Driver, chance: Random) -> None:
    """What a person does, if it makes sense now."""
    name = chance.choice(list(driver.rollout.groups))
    asked: list[Callable[[Rollout], list[Decision]]] = [
        lambda rollout: commands.cancel(rollout, driver.now),
        lambda rollout: commands.resume(rollout, driver.now),
        lambda rollout: commands.retry(rollout, driver.now),
        lambda rollout: commands.promote(rollout, name, chance.randint(1, 2)),
        lambda rollout: commands.accept(rollout, name, "because", driver.now),
    ]
    with contextlib.suppress(Conflict):
        driver.write(chance.choice(asked)(driver.rollout))


class Storm:
    """One strategy with rules of every kind, machines of every kind, and people who interfere."""

    def __init__(self, seed: int) -> None:
        self.case = case = Case(seed)
        self.chance = chance = Random(seed)
        self.hanging = {place for place in sorted(case.lost) if chance.random() < 0.3}
        groups = [{**group, **of_group(chance)} for group in case.groups]
        self.strategy = msgspec.convert({"groups": groups, **anything(chance)}, Strategy)
        self.driver = Driver(begin(self.strategy, case.nodes, 1000.0), Machines(self.outcome), chance)

    def outcome(self, name: str, phase: int, tries: int) -> str:
        if (name, phase) not in self.case.lost or tries >= 3:
            return "ok"
        return "hang" if (name, phase) in self.hanging else "fail"

    def rage(self) -> Rollout:
        driver, chance = self.driver, self.chance
        for _ in range(chance.randint(0, 60)):
            for _ in range(chance.randint(1, 5)):
                driver.turn()
            driver.machines.begin(lambda _: chance.random() < 0.5)
            driver.machines.finish()
            if chance.random() < 0.1:
                ask(driver, chance)
            if chance.random() < 0.1:
                driver.now += 50.0
        return driver.run(promoting=True)

    def most(self, key: str) -> int:
        """How many may be in flight at once."""
        limits = self.strategy.max_in_flight
        kind, _, name = key.partition(" ")
        own = self.driver.rollout.groups[name].group.parallel_nodes if kind == "group" else None
        found = {
            "": limits.nodes,
            "group": own or limits.group,
            "rack": limits.rack,
            "label": limits.labels.get("zone"),
        }
        return found[kind] or 99


@pytest.mark.parametrize("block", spread(range(4), 1))
def test_every_rollout_ends_and_no_phase_starts_twice_in_an_attempt(block: int) -> None:
    for seed in range(block, 400, 4):
        storm = Storm(seed)
        rollout = storm.rage()
        machines = storm.driver.machines
        for (name, phase), starts in machines.starts.items():
            assert starts <= rollout.nodes[name].attempt, (seed, name, phase)
        for name, progress in rollout.nodes.items():
            done = [machines.state.get((name, phase)) for phase in range(progress.passed)]
            assert set(done) <= {"ACTIVE"}, (seed, name)
        assert "TODO" not in machines.state.values(), (seed, "something would begin after the end")
        for name, progress in rollout.nodes.items():
            if rollout.head.state == "cancelled" or progress.state == "unknown":
                assert "TRANSITION" not in [machines.state.get((name, phase)) for phase in (0, 1)], (seed, name)
        for key, most in storm.driver.most.items():
            assert most <= storm.most(key), (seed, key)
        assert not step(rollout, machines.seen(rollout), storm.driver.now).decisions, seed


def test_what_can_still_succeed_is_said_while_nodes_are_open_and_what_is_where_all_are_done() -> None:
    every = Criteria(percent_successful_nodes=100, minimum_successful_nodes=5)
    assert criteria.hopeless(every, Count(5, 0, 1)) == (
        "percent_successful_nodes: 100 wanted, at most 4 of 5 (80%) can still succeed",
        "minimum_successful_nodes: 5 wanted, at most 4 can still succeed",
    )
    assert criteria.hopeless(every, Count(5, 4, 1)) == criteria.unmet(every, Count(5, 4, 1))
    assert criteria.unmet(every, Count(5, 4, 1))[0].endswith("4 of 5 (80%) successful")

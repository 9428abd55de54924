"""Machines that a rollout can be tried on, the loop of its driver, and its rules once more, slowly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import msgspec

from nodepool_ocb.model.records import Node
from nodepool_ocb.rollout.commands import promote
from nodepool_ocb.rollout.observation import Seen
from nodepool_ocb.rollout.records import (
    IN_FLIGHT,
    Decision,
    GroupRecord,
    GroupState,
    NodesRecord,
    Rollout,
    RolloutRecord,
    apply,
    changed,
    parts,
    whole,
)
from nodepool_ocb.rollout.step import Directive, Step, step, watched

Outcome = Callable[[str, int, int], str]  # node, phase, attempt → "ok", "fail" or "hang"


def all_well(node: str, phase: int, attempt: int) -> str:  # noqa: ARG001
    return "ok"


def failing(*lost: tuple[str, int]) -> Outcome:
    """These nodes fail in these phases, whenever they are tried."""
    return lambda node, phase, _: "fail" if (node, phase) in lost else "ok"


class Machines:
    """One noderole a node and phase: PROPOSED, TODO, TRANSITION, then ACTIVE or ERROR; ENDING where it is to be ended."""

    def __init__(self, outcome: Outcome = all_well) -> None:
        self.outcome = outcome
        self.state: dict[tuple[str, int], str] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        self.generation: Counter[tuple[str, int]] = Counter()
        self.gone: set[str] = set()

    def seen(self, rollout: Rollout) -> dict[str, Seen]:
        return {node: self._seen(node, phase) for node, phase in watched(rollout).items()}

    def _seen(self, node: str, phase: int) -> Seen:
        match self.state.get((node, phase), "PROPOSED"):
            case _ if node in self.gone:
                return Seen(gone=True)
            case "PROPOSED":
                return Seen(proposed=1)
            case "TODO":
                return Seen(waiting=1)
            case "TRANSITION":
                return Seen(running=1)
            case "ENDING":
                return Seen(cancelling=1)
            case "ERROR":
                return Seen(errors={"role": self.generation[node, phase]}, reason="it broke")
        return Seen()

    def do(self, actions: Iterable[Any]) -> None:
        for action in actions:
            place = (action.node, action.phase)
            before = self.state.get(place, "PROPOSED")
            if action.directive is Directive.CANCEL and before == "TRANSITION":
                self.state[place] = "ENDING"
            elif action.directive in (Directive.RECALL, Directive.CANCEL):
                assert before == "TODO", (before, action)
                self.state[place] = "PROPOSED"
            else:
                assert before == "PROPOSED" or (before == "ERROR" and action.directive is Directive.RETRY), (
                    before,
                    action,
                )
                self.state[place] = "TODO"
                self.generation[place] += 1

    def begin(self, which: Callable[[str], bool] = lambda _: True) -> bool:
        """TODO becomes TRANSITION; whether any did."""
        ready = [place for place, state in self.state.items() if state == "TODO" and which(place[0])]
        for place in ready:
            self.state[place] = "TRANSITION"
            self.starts[place] += 1
        return bool(ready)

    def finish(self) -> bool:
        """What is in TRANSITION, and does not hang, ends; what was told to end has failed."""
        moved = False
        for (node, phase), state in list(self.state.items()):
            if state == "ENDING":
                self.state[node, phase] = "ERROR"
                moved = True
                continue
            outcome = self.outcome(node, phase, self.starts[node, phase])
            if state == "TRANSITION" and outcome != "hang":
                self.state[node, phase] = "ERROR" if outcome == "fail" else "ACTIVE"
                moved = True
        return moved


class Driver:
    """What a daemon does: read, step, write, act. With ``crashes`` it writes a part only, forgets, and begins again."""

    def __init__(self, rollout: Rollout, machines: Machines, crashes: Random | None = None) -> None:
        self.rollout = rollout
        self.machines = machines
        self.crashes = crashes
        self.now = 1000.0
        self.log: list[Decision] = []
        self.most: Counter[str] = Counter()  # how many were in flight at once: "", "group g", "rack r1"

    def turn(self) -> Step:
        decided = step(self.rollout, self.machines.seen(self.rollout), self.now)
        if self.crashes is None:
            self.machines.do(decided.actions)
            self.write(decided.decisions)
        else:
            self.machines.do(action for action in decided.actions if self.crashes.random() < 0.7)
            self.write(decided.decisions[: self.crashes.randint(0, len(decided.decisions))])
            self.rollout = reread(self.rollout)
        return decided

    def write(self, decisions: Sequence[Decision]) -> None:
        kinds = {type(decision.record) for decision in decisions}
        assert len(kinds) <= 1 or kinds == {GroupRecord, RolloutRecord}, "a round touches one kind of znode"
        self.log += decisions
        self.rollout = apply(self.rollout, decisions)
        flying = [progress for progress in self.rollout.nodes.values() if progress.state in IN_FLIGHT]
        there = Counter({"": len(flying)})
        for progress in flying:
            there.update([f"group {progress.group}", *progress.domains])
        self.most |= there

    def settle(self) -> Rollout:
        """Turn until nothing is to be decided or done."""
        for _ in range(100_000):
            turn = self.turn()
            if not turn.decisions and not turn.actions:
                return self.rollout
        raise AssertionError("it does not come to rest")

    def run(self, promoting: bool = False) -> Rollout:
        """Turn, let machines work and time pass, until the rollout is over."""
        for _ in range(100_000):
            self.settle()
            if self.rollout.over:
                return self.rollout
            if self.machines.begin() or self.machines.finish():
                continue
            paused = [name for name, record in self.rollout.groups.items() if record.state is GroupState.PAUSED]
            due = step(self.rollout, self.machines.seen(self.rollout), self.now).due
            if promoting and paused:
                self.write(promote(self.rollout, paused[0], self.rollout.groups[paused[0]].batch + 1))
            elif due is not None:
                self.now = due
            else:
                raise AssertionError(f"it is stuck: {self.rollout}")
        raise AssertionError("it does not end")


def reread(rollout: Rollout) -> Rollout:
    """The rollout as another daemon reads it."""
    written = {path: (type(record), msgspec.json.encode(record)) for path, record in parts(rollout).items()}
    read: dict[str, Any] = {path: msgspec.json.decode(data, type=kind) for path, (kind, data) in written.items()}
    groups = {path.removeprefix("groups/"): record for path, record in read.items() if path.startswith("groups/")}
    again = whole(read[""], groups, [record for record in read.values() if isinstance(record, NodesRecord)])
    assert not changed(rollout, again)
    assert again == rollout
    return again


def ended(rollout: Rollout) -> tuple[Any, ...]:
    """What matters of the end: the result, every group's state and reason, every node's state."""
    return (
        rollout.head.state,
        {name: (record.state, record.reason, record.unmet) for name, record in rollout.groups.items()},
        {name: (progress.state, progress.passed) for name, progress in rollout.nodes.items()},
    )


# -- the rules of the seed, slowly, one group after the other, with fractions --


class Slow:
    """Carries out a strategy's plain document, in an order that is given; ``lost`` holds (node, phase) that fail."""

    def __init__(
        self, groups: Sequence[Mapping[str, Any]], nodes: Mapping[str, Node], lost: set[tuple[str, int]]
    ) -> None:
        self.groups = groups
        self.nodes = nodes
        self.lost = lost
        self.status = dict.fromkeys(sorted(nodes), "not started")
        self.verdict: dict[str, str] = {}
        self.sent: list[tuple[str, str, str]] = []

    def members(self, group: Mapping[str, Any]) -> list[str]:
        return [name for name in sorted(self.nodes) if self._means(group["selectors"], name)]

    def _means(self, selectors: Sequence[Mapping[str, Any]], name: str) -> bool:
        if len(selectors) == 0:
            return True
        return any(self._one(selector, name) for selector in selectors)

    def _one(self, selector: Mapping[str, Any], name: str) -> bool:
        node = self.nodes[name]
        names = selector.get("node_names") or [name]
        tags = selector.get("node_tags")
        racks = selector.get("rack_names")
        labels = selector.get("node_labels")
        return (
            (name in names or name.split(".")[0] in names)
            and (not tags or len(set(tags) & set(node.tags)) > 0)
            and (not racks or node.rack in racks)
            and (not labels or any(f"{key}:{value}" in labels for key, value in node.labels.items()))
        )

    def run(self, order: Sequence[str]) -> str:
        by_name = {group["name"]: group for group in self.groups}
        for name in order:
            self.verdict[name] = self._process(by_name[name])
        bad = any(self.verdict[group["name"]] != "success" for group in self.groups if group["critical"])
        return "failed" if bad else "success"

    def _process(self, group: Mapping[str, Any]) -> str:
        if any(self.verdict[each] != "success" for each in group["depends_on"]):
            return "dependency"
        members = self.members(group)
        for phase, (verb, valid, then) in enumerate(
            [("prepare", "not started", "prepared"), ("deploy", "prepared", "success")]
        ):
            for node in members:
                if self.status[node] == valid:
                    self.sent.append((verb, node, group["name"]))
                    self.status[node] = "failure" if (node, phase) in self.lost else then
            good = [node for node in members if self.status[node] in (then, "success")]
            bad = [node for node in members if self.status[node] == "failure"]
            if not self._meets(group.get("success_criteria", {}), len(members), len(good), len(bad)):
                return verb
        return "success"

    def _meets(self, criteria: Mapping[str, int], members: int, good: int, bad: int) -> bool:
        rate = Fraction(good, members) if members else Fraction(1)
        verdicts = []
        if "percent_successful_nodes" in criteria:
            verdicts.append(rate >= Fraction(criteria["percent_successful_nodes"], 100))
        if "minimum_successful_nodes" in criteria:
            verdicts.append(good >= criteria["minimum_successful_nodes"])
        if "maximum_failed_nodes" in criteria:
            verdicts.append(bad <= criteria["maximum_failed_nodes"])
        return all(verdicts)

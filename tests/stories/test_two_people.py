"""Two people change the structure at once: it ends as if one had come after the other, whenever the second one comes.

Each pair that depends on something *absent* (no such role, no child, no other rollout) is tried before every request of
the first; then any pairs at all, in any world, at any moment (hypothesis).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Json
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.testing.zookeeper.server import Server
from tests.cli.people import DRIVE, Chroot, Copied

CATALOGUE: Final = """\
barclamp: {name: people, version: 1}
roles:
  - {name: base, jig: noop, flags: [implicit]}
  - {name: top, jig: noop, requires: [base]}
  - {name: other, jig: noop, conflicts: [top]}
  - {name: member, jig: noop, flags: [cluster]}
  - {name: child, jig: noop, requires: [member]}
"""
#: Each is right alone; both together are a circle.
HALVES: Final = {
    "this.yml": "barclamp: {name: this, version: 1}\nroles:\n  - {name: this, jig: noop, requires: [that]}\n",
    "that.yml": "barclamp: {name: that, version: 1}\nroles:\n  - {name: that, jig: noop, requires: [this]}\n",
}

N1, N2, N3, N4 = (f"n{number}.example.com" for number in range(1, 5))
#: Nodes n1 and n4 in lab, n2 in sub below it; deployment tmp is empty.
BEGINNING: Final = (
    "barclamp import people.yml",
    "deployment create lab",
    "deployment create sub --parent lab",
    "deployment create tmp --parent lab",
    f"node create {N1} --no-address --deployment lab",
    f"node create {N4} --no-address --deployment lab",
    f"node create {N2} --no-address --deployment sub",
    *(f"node set {node} alive=true" for node in (N1, N2, N4)),
)
LET_IN = (
    "deployment commit lab --no-noderoles",
    "deployment commit sub --no-noderoles",
    "deployment commit tmp --no-noderoles",
)
ROLLOUT_OVER = (
    *LET_IN, f"node bind {N1} top", f"node bind {N2} top", "rollout start --default --deployment lab",
)  # fmt: skip

#: what they depend on → (what was done before, what two people do at once)
PAIRS: Final = {
    "no conflicting role": ((), f"node bind {N1} top", f"node bind {N1} other"),
    "no other member": (
        (f"node bind {N1} member", f"node bind {N1} child"),
        f"node bind {N4} member",
        f"node bind {N4} child",
    ),
    "no member yet": ((), f"node bind {N4} member", f"node bind {N1} child"),
    "no child": ((f"node bind {N1} base",), f"noderole unbind base@{N1} --yes", f"node bind {N1} top"),
    "no child elsewhere": ((f"node bind {N1} member",), f"node delete {N1} --yes", f"node bind {N4} child"),
    "no other noderole": ((), f"node delete {N1} --yes", f"node bind {N1} top"),
    "no noderole in it": ((), "deployment delete tmp --yes", f"node bind {N1} top --deployment tmp"),
    "no node in it": ((), "deployment delete tmp --yes", f"node create {N3} --no-address --deployment tmp"),
    "no deployment below it": ((), "deployment delete tmp --yes", "deployment create deep --parent tmp"),
    "no way back": ((), "barclamp import this.yml", "barclamp import that.yml"),
    "no node of that name": (
        (),
        f"node create {N3} --no-address --deployment tmp",
        f"node create {N3} --no-address --deployment sub",
    ),
    "no other rollout": (
        (*LET_IN, f"node bind {N1} top", f"node bind {N2} top"),
        "rollout start --default --deployment lab",
        "rollout start --default --deployment sub",
    ),
    "no other rollout to resume beside": (
        (*ROLLOUT_OVER, "rollout cancel lab", "drive lab"),
        "rollout resume lab",
        "rollout start --default --deployment sub",
    ),
    "no other rollout to retry beside": (
        (*ROLLOUT_OVER, "drive lab", f"node bind {N2} member"),
        "rollout retry lab",
        "rollout start --default --deployment sub",
    ),
}


NODES = (N1, N2, N3)
DEPLOYMENTS = ("lab", "sub", "tmp")
#: Everything that people do at random; much of it is refused, as it should be.
COMMANDS: Final = (
    *(f"node bind {node} {role}" for node in NODES for role in ("base", "top", "other", "member", "child", "this")),
    *(f"node bind {node} top --deployment tmp" for node in NODES),
    *(f"noderole unbind {role}@{node} --yes" for node in NODES for role in ("base", "top", "member", "child")),
    *(f"noderole {verb} {role}@{node}" for verb in ("commit", "propose") for node in NODES for role in ("base", "child")),
    *(f"node create {node} --no-address --deployment {name}" for node in NODES for name in DEPLOYMENTS),
    *(f"node delete {node} --yes" for node in NODES),
    *(f"node commit {node}" for node in NODES),
    *(f"node set {node} alive=true" for node in NODES),
    *(f"deployment create {name} --parent {above}" for name, above in (("tmp", "lab"), ("tmp", "sub"), ("deep", "tmp"))),
    *(f"deployment delete {name} --yes" for name in ("sub", "tmp", "deep")),
    *(f"deployment {verb} {name}" for verb in ("propose", "commit", "commit --no-noderoles") for name in DEPLOYMENTS),
    *(f"barclamp import {name}" for name in HALVES),
    *(f"rollout start --default --deployment {name}" for name in DEPLOYMENTS),
    *(f"rollout {verb} {name}" for verb in ("cancel", "resume", "retry") for name in DEPLOYMENTS),
    "noderole retry --failed",
)  # fmt: skip
LINES: Final = (*COMMANDS, *(f"{DRIVE} {name}" for name in DEPLOYMENTS))
#: The requests before it connect, and see that the tree is there.
FIRST_READ: Final = 3
ALL, LAST = 1000, 6  # how many of the requests after that are tried


@pytest.fixture
def beginning(zookeeper: Server, chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chroot]:
    monkeypatch.setenv("HOME", str(tmp_path))
    files = {"people.yml": CATALOGUE, **HALVES}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with Session(ZooKeeperSettings(hosts=zookeeper.hosts + chroot)) as opened:
        clusters.bootstrap(opened)
    client = KazooClient(zookeeper.hosts)
    client.start()
    chroot = Chroot(client, zookeeper.hosts, {name: str(tmp_path / name) for name in files}, _bare(client, chroot))
    for line in BEGINNING:
        assert chroot.does(line) == 0, line
    yield chroot
    client.stop()
    client.close()


def _bare(client: KazooClient, chroot: str) -> Iterator[Copied]:
    """The tree that an empty cluster has."""
    below = ["/ocb"]
    for path in below:
        below += [f"{path}/{name}" for name in sorted(client.get_children(chroot + path))]
    return (Copied(path, client.get(chroot + path)[0]) for path in below)


@pytest.mark.long
@pytest.mark.parametrize(
    "swapped", [pytest.param(False, id=""), pytest.param(True, id="swapped", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("absent", PAIRS)
def test_what_rests_on_an_absence_is_decided_again_when_somebody_was_faster(
    beginning: Chroot, absent: str, swapped: bool
) -> None:
    before, *both = PAIRS[absent]
    first, second = reversed(both) if swapped else both
    assert not interleaved(beginning, before, first, second, points=LAST if swapped else ALL)


@pytest.mark.parametrize(
    "absent", ["no conflicting role", "no child elsewhere", "no child", "no node in it", "no way back"]
)
def test_without_the_version_of_the_structure_it_is_found(
    beginning: Chroot, absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Session.commit

    def heedless(session: Session, changes: Sequence[Change]) -> Stats:
        return commit(session, [change for change in changes if change.path != paths.STRUCTURE])

    monkeypatch.setattr(Session, "commit", heedless)
    assert interleaved(beginning, *PAIRS[absent], points=LAST)


def interleaved(chroot: Chroot, before: Sequence[str], first: str, second: str, points: int) -> dict[int, list[str]]:
    """What is wrong when ``second`` comes before one of the last requests of ``first``, by that request."""
    for line in before:
        assert chroot.does(line) == 0, line
    copies = chroot.copies()
    requests, possible = possibly(copies, first, second)
    found = {}
    for at in range(max(FIRST_READ, requests + 1 - points), requests + 1):
        copy = next(copies)
        assert copy.at_once(first, second, at)
        faults, summary = copy.look()
        if faults or summary not in possible:
            found[at] = faults or ["it is as neither could have made it alone"]
    return found


def possibly(copies: Iterator[Chroot], first: str, second: str) -> tuple[int, list[Json]]:
    """How many requests the first takes, and how the world may look when both are done."""
    orders = next(copies), next(copies)
    requests = orders[0].in_turn(first, second)
    orders[1].in_turn(second, first)
    return requests, [order.look()[1] for order in orders]


@pytest.mark.parametrize(
    ("worlds", "steps"),
    [pytest.param(10, 6, id="short"), pytest.param(200, 12, id="long", marks=pytest.mark.long)],
)
def test_concurrent_changes_of_two_people_equal_some_sequential_order(
    beginning: Chroot, worlds: int, steps: int
) -> None:
    copies = beginning.copies()

    class People(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.chroot = next(copies)

        @rule(line=st.sampled_from(LINES))
        def one(self, line: str) -> None:
            self.chroot.does(line)
            assert not self.chroot.look()[0]

        @rule(first=st.sampled_from(COMMANDS), second=st.sampled_from(LINES), before_end=st.integers(0, 12))
        def two(self, first: str, second: str, before_end: int) -> None:
            requests, possible = possibly(self.chroot.copies(), first, second)
            self.chroot.at_once(first, second, max(1, requests - before_end))
            faults, summary = self.chroot.look()
            assert not faults
            assert summary in possible

    run_state_machine_as_test(
        People,
        settings=settings(
            max_examples=worlds, stateful_step_count=steps, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip

"""A folder of runs that was deleted by hand is made again, and a change of the annealers is a reason to look at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nodepool_ocb.daemon.rendezvous import Ranking
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import OcbError, Stale, Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Change,
    Check,
    Cluster,
    Create,
    Daemon,
    Deployment,
    DeploymentRole,
    Node,
    Role,
    RolloutPointer,
)
from nodepool_ocb.store.world.changeset import ChangeSet
from nodepool_ocb_annealer.annealer import Annealer
from nodepool_ocb_annealer.writing import Writing
from tests.engine.worlds import put, world

RUN = paths.run("a", "n1", "0000000001-a1")


@pytest.mark.parametrize(
    ("answer", "made"),
    [
        (Stale("it is not there", RUN, absent=True), [Create(paths.runs("a", "n1"))]),
        (Stale("it is there", RUN), []),
        (Stale("it is not there", paths.noderole("a", "n1"), absent=True), []),
        (Stale("it is not there", "/ocb/else/runs/1", absent=True), []),
        (Unavailable("no connection"), []),
    ],
)
def test_the_folder_of_a_noderole_s_runs_is_made_again(answer: OcbError, made: list[Change]) -> None:
    turns: Any = SimpleNamespace(here=lambda: True, post=lambda call: call())
    sent: list[list[Change]] = []
    answers: list[Any] = []

    def commit_soon(changes: list[Change], done: Any) -> None:
        sent.append(changes)
        answers.append(done)

    session: Any = SimpleNamespace(commit_soon=commit_soon)
    refused: list[Any] = []
    cache: Any = SimpleNamespace(expect=lambda _: None, refused=refused.append, committed=lambda *_: None)
    writing = Writing(session, cache, turns)
    heard: list[OcbError | None] = []
    changes: list[Change] = [Check(paths.fence("n1"), 3)]
    writing.send(changes, heard.append, "an end")
    answers.pop(0)(answer)
    assert (heard, refused, sent[1:]) == ([answer], [changes], [made] if made else [])
    writing.send(changes, heard.append, "an end")
    answers.pop()([None])
    assert heard[1:] == [None]
    writing.send([], heard.append, "nothing")
    assert len(heard) == 2
    writing.close()


class Parts:
    """An annealer whose parts note the node names and the words that they are given."""

    def __init__(self, made: World) -> None:
        self.considered: list[str] = []
        self.whole: list[str] = []
        self.planned: list[set[str]] = []
        self.context: Any = SimpleNamespace(
            world=made, ranking=Ranking("a"), cluster="c", session=None, cache=SimpleNamespace(quarantined=())
        )
        made.put(Stored(Cluster(id="c"), 0))
        ignore: Any = SimpleNamespace(look=lambda *_: None)
        self.settling = self.rolling = self.tasks = self.powering = self.publishing = ignore
        self.hooking: Any = SimpleNamespace(look=lambda _: None, look_at_all=lambda: self.whole.append("hooks"))
        self.checking: Any = SimpleNamespace(look=lambda _: None, look_at_all=lambda: self.whole.append("checks"))
        self.probing: Any = SimpleNamespace(plan=lambda nodes: self.planned.append(set(nodes)))
        self.claims: Any = SimpleNamespace(consider=self.considered.append)
        self._stay_in_our_cluster = lambda: None

    def look(self, **touched: Any) -> list[str]:
        self.considered.clear()
        Annealer._look(self, ChangeSet(**touched))  # type: ignore[arg-type]
        return sorted(self.considered)


def daemon(**fields: Any) -> Daemon:
    return Daemon(**{"host": "h", "pid": 1, "version": "0", "started": 0.0, **fields})


def test_an_annealer_looks_at_all_nodes_where_the_ranks_or_the_catalogue_changed() -> None:
    made = world()
    put(made, "a@n1", "TODO")  # type: ignore[arg-type]
    made.put_node("n2", Node(alive=True), 1)
    parts = Parts(made)
    assert parts.look() == []
    assert parts.look(nodes={"n1"}) == ["n1"]
    assert parts.planned[-1] == {"n1"}
    for kind in (Role, Deployment, DeploymentRole):
        assert parts.look(kinds={kind}) == ["n1", "n2"], kind
    assert parts.look(attributes=True) == ["n1", "n2"]
    assert parts.look(kinds={RolloutPointer, Daemon}) == []
    made.put(Stored(daemon(), 0), "annealer", "b")
    assert parts.look(kinds={Daemon}) == ["n1", "n2"]
    made.put(Stored(daemon(trouble="no key"), 0), "annealer", "b")
    assert parts.look(kinds={Daemon}) == ["n1", "n2"]
    assert parts.look(kinds={Daemon}) == []
    assert parts.whole.count("checks") == 2
    assert parts.whole.count("hooks") == 6


def test_paused_annealers_count_where_no_other_is_fit() -> None:
    made = world()
    put(made, "a@n1", "TODO")  # type: ignore[arg-type]
    parts = Parts(made)
    parts.look()
    made.put(Stored(daemon(paused="ann"), 0), "annealer", "a")
    assert parts.look(kinds={Daemon}) == []
    made.put(Stored(daemon(paused="ann"), 0), "annealer", "b")
    assert parts.look(kinds={Daemon}) == ["n1"], "both are paused, and fit"
    made.put(Stored(daemon(), 0), "annealer", "a")
    assert parts.look(kinds={Daemon}) == ["n1"], "one works"

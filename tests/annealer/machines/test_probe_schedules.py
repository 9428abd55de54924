"""Which machines are asked, when they are asked again, and what each answer comes to."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.probe import Alive
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Mark, Marker, Suspicion
from nodepool_ocb.model.records import Claim, Daemon, Node, Set
from nodepool_ocb.telemetry import metrics
from nodepool_ocb_annealer.machines import pacing, probes
from nodepool_ocb_annealer.machines.probes import NoKey, OwnFault, Probing, Unfit
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.machines.test_judging import Context as Judged
from tests.engine.worlds import world

ADDRESS = ("192.0.2.1",)
ALIVE = Node(alive=True, addresses=ADDRESS)
DEAD = Node(alive=False, addresses=ADDRESS, reason="connect: no answer", since=0.5)
SILENT = Unreachable("connect", "no answer")
OTHERS = Suspicion(by="b", reason="no route", since=0.0)
OURS = replace(OTHERS, by="a")
TRIAL = Timer(TimerKind.TRIAL)


class Desk(Judged):
    """Annealer "a", whose probes are answered by the test; nodes are put in by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **nodes: Node) -> None:
        self.clock = 1000.0
        monkeypatch.setattr(probes, "time", SimpleNamespace(monotonic=lambda: self.clock))
        monkeypatch.setattr(
            probes, "random", SimpleNamespace(uniform=lambda _, most: most, choice=lambda some: some[0])
        )
        made: World = world()
        for name, node in nodes.items():
            made.put_node(name, node, 0)
        super().__init__(made)
        self.lack: str | None = None
        self.keys_forgotten = 0
        self.prober: Any = SimpleNamespace(lacks=lambda: self.lack, forget_keys=self._forget_keys)
        self.asked: list[tuple[str, Node, bool]] = []
        self.answers: dict[str, Callable[[Any], None]] = {}
        self.threads = True
        self.whats: list[str] = []
        self.probing = Probing(self, self.judging)  # type: ignore[arg-type]
        self.probing.close()
        self.probing._workers = SimpleNamespace(ask=self._ask, close=lambda: None)  # type: ignore[assignment]

    def post(self, call: Callable[[], None]) -> None:
        call()

    def _forget_keys(self) -> None:
        self.keys_forgotten += 1

    def _ask(self, work: Any, answered: Callable[[Any], None]) -> bool:
        if self.threads:
            _, fqdn, node, anew = work.args
            self.asked.append((fqdn, node, anew))
            self.answers[fqdn] = answered
        return self.threads

    def send(self, changes: Any, then: Any, what: str) -> None:
        self.sent.append(changes)
        self.whats.append(what)
        then(None)

    def beside(self, **fields: Any) -> None:
        """Another annealer, "b"."""
        record = Daemon(**{"host": "g", "pid": 1, "version": "0", "started": 0.0, **fields})
        self.world.put(Stored(record, 0), "annealer", "b")

    def waits(self) -> dict[str, float]:
        """Of each node that has a timer, how long it waits; they are set no more."""
        found = {
            key.about or str(key.kind): when - self.clock for when, _, key in sorted(self.timers._heap, reverse=True)
        }
        list(self.timers.due(float("inf")))
        return {name: round(wait, 3) for name, wait in found.items()}

    def probe(self, answer: Any, fqdn: str = "n") -> dict[str, float]:
        """The machine is asked and answers; the waits after that."""
        self.probing.probe(fqdn)
        self.waits()
        self.answers.pop(fqdn)(answer)
        return self.waits()

    def written(self, fqdn: str = "n") -> Node:
        found = [change.data for change in self.sent[-1] if isinstance(change, Set) and change.path == paths.node(fqdn)]
        assert len(found) == 1
        assert isinstance(found[0], Node)
        return found[0]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Desk]:
    return lambda **nodes: Desk(monkeypatch, **nodes)


Made = Callable[..., Desk]


def count(result: str) -> float:
    return float(metrics.PROBES.labels(result)._value.get())


# -- when --


def test_a_node_is_asked_soon_where_it_is_dead_or_suspected_and_else_within_the_interval(made: Made) -> None:
    desk = made(
        n=ALIVE, d=DEAD, s=replace(ALIVE, suspicion=OTHERS), o=replace(ALIVE, suspicion=OURS), v=Node(alive=True)
    )
    desk.beside()
    desk.probing.plan(["n", "d", "s", "o", "v", "gone"])
    often, soon = desk.settings.probe_seconds, desk.settings.dead_probe_seconds
    assert desk.waits() == {"n": often, "d": 0.2 * soon, "s": 0.0, "o": 0.2 * soon}


def test_of_those_that_are_asked_for_a_word_each_waits_by_its_rank_without_the_one_that_asks(made: Made) -> None:
    desk = made(s=replace(ALIVE, suspicion=OTHERS), n=ALIVE)
    ranks: list[tuple[str, str | None]] = []

    def of(fqdn: str, without: str | None = None) -> int:
        ranks.append((fqdn, without))
        return 2

    desk.ranking.of = of  # type: ignore[method-assign]
    desk.probing.plan(["s", "n"])
    assert desk.waits() == {"s": 2 * desk.settings.dead_probe_seconds}
    assert ("s", "b") in ranks


@pytest.mark.parametrize("node", [ALIVE, DEAD], ids=["alive", "dead"])
def test_an_annealer_that_starts_beside_two_thousand_machines_does_not_log_in_to_all_at_once(
    made: Made, node: Node
) -> None:
    names = [f"n{number}" for number in range(2000)]
    desk = made(**dict.fromkeys(names, node))
    desk.probing.plan(names)
    began: list[float] = []
    while len(began) < len(names):
        desk.clock += desk.timers.seconds(desk.clock, at_most=1.0)
        for timer in list(desk.timers.due(desk.clock)):
            before = len(desk.asked)
            desk.probing.probe(timer.about)
            began += [desk.clock] * (len(desk.asked) - before)
        assert desk.clock < 1300.0
    assert len({name for name, *_ in desk.asked}) == len(names)
    most = max(sum(start <= each < start + 1.0 for each in began) for start in sorted(set(began))[::40])
    assert most <= pacing.A_SECOND + pacing.BURST


def test_a_second_opinion_is_no_first_login_that_waits(made: Made) -> None:
    desk = made(n=replace(ALIVE, suspicion=OTHERS))
    desk.beside()
    desk.probing._first._next = desk.clock + 100.0
    desk.probing.probe("n")
    assert [name for name, *_ in desk.asked] == ["n"]


def test_a_machine_is_asked_by_its_schedule_after_the_first_time(made: Made) -> None:
    desk = made(n=ALIVE, o=ALIVE)
    desk.probe(Alive())
    desk.probing._first._next = desk.clock + 100.0
    desk.probing.probe("n")
    desk.probing.probe("o")
    assert [name for name, *_ in desk.asked] == ["n", "n"]
    assert desk.waits() == {"o": 100.0}


def mark(until: float | None) -> Mark:
    return Mark(kind=Marker.PERSON, by="ann", since=0.0, until=until)


@pytest.mark.parametrize(("until", "waits"), [(31.0, {"n": 30.0}), (None, {}), (0.5, {"n": 5.0})])
def test_a_marked_node_is_looked_at_when_its_mark_is_over(
    made: Made, until: float | None, waits: dict[str, float]
) -> None:
    desk = made(n=replace(DEAD, mark=mark(until)))
    desk.probing.plan(["n"])
    found = desk.waits()
    assert found == (waits if until != 0.5 else {"n": round(0.2 * desk.settings.dead_probe_seconds, 3)})
    desk.probing.probe("n")
    assert bool(desk.asked) is (until == 0.5)


@pytest.mark.parametrize("case", ["no prober", "in trouble", "lower rank", "virtual", "without addresses", "gone"])
def test_a_node_that_is_not_ours_is_not_asked(made: Made, case: str) -> None:
    node = {"virtual": replace(ALIVE, virtual=True), "without addresses": Node(alive=True)}.get(case, ALIVE)
    desk = made(**({} if case == "gone" else {"n": node}))
    if case == "no prober":
        desk.prober = None
    elif case == "in trouble":
        desk.judging.standing.lacks("no key")
    elif case == "lower rank":
        desk.ranking.of = lambda *_, **__: 1  # type: ignore[method-assign]
    desk.probing.plan(["n"])
    desk.probing.probe("n")
    assert (desk.waits(), desk.asked) == ({}, [])


def test_a_machine_that_is_being_asked_is_not_asked_twice(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.probing.probe("n")
    desk.probing.probe("n")
    desk.probing.plan(["n"])
    assert (desk.asked, desk.waits()) == ([("n", ALIVE, False)], {})


def test_a_machine_at_work_is_asked_later(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.world.put_claim("n", Claim(annealer="b", noderole="a@n", run="0000000001-a1", epoch=1, since=1.0))
    desk.probing.probe("n")
    assert (desk.asked, desk.waits()) == ([], {"n": round(1.1 * desk.settings.probe_seconds, 3)})


# -- answers --


def test_a_machine_that_answers_is_asked_again_and_nothing_is_written(made: Made) -> None:
    desk, before = made(n=ALIVE), count("alive")
    assert desk.probe(Alive(host_key=None)) == {"n": round(1.1 * desk.settings.probe_seconds, 3)}
    assert (desk.sent, count("alive") - before) == ([], 1.0)


def test_a_dead_machine_that_answers_is_alive_with_its_key(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    desk = made(n=DEAD)
    with caplog.at_level(logging.INFO, probes.log.name):
        waits = desk.probe(Alive(host_key="ssh-ed25519 AAAA"))
    assert waits == {"n": round(1.1 * desk.settings.dead_probe_seconds, 3)}, (
        "the record is the old one until it is read"
    )
    assert (desk.written().alive, desk.written().host_keys) == (True, ("ssh-ed25519 AAAA",))
    assert (desk.whats, [each.getMessage() for each in caplog.records]) == (["n alive"], ["n is alive"])
    assert desk.probing._relapses._past["n"].revived == 1.0


def test_the_first_key_of_a_machine_is_kept_and_no_other(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.probe(Alive(host_key="ssh-ed25519 AAAA"))
    assert (desk.whats, desk.written().host_keys) == (["host key of n"], ("ssh-ed25519 AAAA",))
    desk = made(n=replace(ALIVE, host_keys=("ssh-ed25519 BBBB",)))
    desk.probe(Alive(host_key="ssh-ed25519 AAAA"))
    assert desk.whats == []


def test_a_machine_is_dead_at_its_second_silence(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    desk, before = made(n=ALIVE), count("failed")
    assert desk.probe(SILENT) == {"n": probes.CONFIRM_SECONDS}
    with caplog.at_level(logging.WARNING, probes.log.name):
        assert desk.probe(SILENT) == {"n": round(1.1 * desk.settings.probe_seconds, 3)}
    assert count("failed") - before == 2.0
    assert (desk.written().alive, desk.written().reason) == (False, "connect: no answer")
    assert [each.getMessage() for each in caplog.records] == ["n is not alive: connect: no answer"]


def test_a_machine_that_others_reach_is_suspected_and_dead_where_they_do_not(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.beside()
    desk.probe(SILENT)
    desk.probe(SILENT)
    suspicion = desk.written().suspicion
    assert (desk.whats, suspicion and (suspicion.by, suspicion.reason)) == (
        ["suspicion of n"],
        ("a", "connect: no answer"),
    )
    desk = made(n=replace(ALIVE, suspicion=OTHERS))
    desk.beside()
    desk.probe(SILENT)
    assert (desk.whats, desk.written().alive) == (["n not alive"], False)


def test_a_machine_at_work_is_judged_by_its_run(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.probe(SILENT)
    desk.probing.probe("n")
    desk.world.put_claim("n", Claim(annealer="b", noderole="a@n", run="0000000001-a1", epoch=1, since=1.0))
    desk.answers.pop("n")(SILENT)
    assert desk.sent == []


def test_another_reason_is_news_at_once_in_another_step_and_else_when_it_is_found_twice(made: Made) -> None:
    desk = made(n=DEAD)

    def news(answer: Unreachable) -> list[str | None]:
        before = len(desk.sent)
        desk.probe(answer)
        return [desk.written().reason for _ in desk.sent[before:]]

    assert news(SILENT) == []
    assert news(Unreachable("connect", "refused")) == []
    assert news(Unreachable("connect", "refused")) == ["connect: refused"]
    assert news(Unreachable("connect", "refused")) == [], "it is written, and not read yet"
    assert news(Unreachable("run", "no shell")) == ["run: no shell"]


def test_a_reason_whose_record_was_refused_is_news_again(made: Made) -> None:
    desk = made(n=DEAD)
    for _ in range(2):
        desk.probe(Unreachable("connect", "refused"))
    desk.probing._written("n", Unavailable("no connection"))
    desk.probe(Unreachable("connect", "refused"))
    assert len(desk.sent) == 2
    desk.probing._written("n", None)
    assert "n" in desk.probing._reasons


def test_a_machine_with_another_address_meanwhile_is_asked_anew(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.probing.probe("n")
    other = replace(ALIVE, addresses=("192.0.2.9",))
    desk.world.put_node("n", other, 1)
    desk.answers.pop("n")(SILENT)
    assert ([(fqdn, node.addresses) for fqdn, node, _ in desk.asked], desk.sent) == (
        [("n", ADDRESS), ("n", ("192.0.2.9",))],
        [],
    )


def test_a_node_that_went_meanwhile_has_no_timer(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.probing.probe("n")
    desk.world.drop_node("n")
    desk.answers.pop("n")(SILENT)
    assert (desk.waits(), desk.sent, desk.probing._under_way) == ({}, [], {})


def test_a_key_that_one_machine_refuses_to_the_only_annealer_is_doubted_first(made: Made) -> None:
    desk = made(n=ALIVE, m=ALIVE)
    refuses = Unreachable("authenticate", "the key is refused")
    desk.probe(refuses)
    assert desk.probe(refuses) == {"n": desk.settings.dead_probe_seconds}
    assert desk.sent == []


# -- this host --


@pytest.mark.parametrize(
    ("raised", "unfit"),
    [
        (NoKey("no key"), Unfit("no key", lacking=True)),
        (OwnFault("connect", "no room"), Unfit("connect: no room", lacking=False, certain=True)),
        (OSError("no room"), Unfit("no room", lacking=False)),
        (KeyError("x"), Unfit("KeyError: 'x'", lacking=False)),
    ],
)
def test_a_host_that_cannot_ask_says_why_and_nothing_of_the_machine(
    made: Made, raised: Exception, unfit: Unfit
) -> None:
    def fails(*_: object) -> None:
        raise raised

    prober: Any = SimpleNamespace(probe=fails)
    assert probes._ask(prober, "n", ALIVE, False) == unfit
    desk, before = made(n=ALIVE), count("unknown")
    found: list[tuple[Any, ...]] = []
    desk.judging.unfit = lambda *given: found.append(given)  # type: ignore[method-assign]
    desk.probe(unfit)
    assert found == [("n", unfit.reason, unfit.lacking, unfit.certain)]
    assert (desk.sent, count("unknown") - before) == ([], 1.0)


def test_a_probe_gives_the_answer_of_the_prober() -> None:
    given: list[tuple[Any, ...]] = []
    prober: Any = SimpleNamespace(probe=lambda *all_: given.append(all_) or SILENT)
    assert probes._ask(prober, "n", ALIVE, True) is SILENT
    assert given == [("n", ALIVE, True)]


def test_a_host_without_a_thread_is_in_trouble(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.threads = False
    desk.probing.probe("n")
    assert desk.judging.standing.trouble == f"this host fails to reach machines: thread: {probes.NO_THREAD} (n)"
    assert desk.probing._under_way == {}


@pytest.mark.parametrize(("nodes", "trouble"), [({"n": ALIVE}, True), ({"n": replace(ALIVE, virtual=True)}, False)])
def test_what_this_host_lacks_is_seen_before_anything_is_begun(
    made: Made, nodes: dict[str, Node], trouble: bool
) -> None:
    desk = made(**nodes)
    desk.lack = "no key"
    desk.probing.look_at_host()
    assert (desk.judging.standing.trouble is not None) is trouble
    desk.prober = None
    desk.probing.look_at_host()


def test_in_trouble_a_machine_that_is_alive_is_tried_and_the_one_at_which_this_host_failed(made: Made) -> None:
    desk = made(d=DEAD, n=ALIVE, m=ALIVE)
    desk.probing.trial()
    assert (desk.asked, desk.waits()) == ([], {}), "there is no trouble"
    for fqdn in ("n", "d"):
        desk.judging.standing.unable(fqdn, "no descriptors")
    desk.probing.trial()
    assert [(fqdn, anew) for fqdn, _, anew in desk.asked] == [("d", True), ("n", True)]
    assert desk.waits() == {str(TRIAL.kind): desk.settings.dead_probe_seconds}
    assert desk.keys_forgotten == 1
    desk.probing.trial()
    assert [fqdn for fqdn, _, _ in desk.asked] == ["d", "n", "m"]
    desk.probing.trial()
    assert len(desk.asked) == 3


def test_in_trouble_with_no_machine_alive_a_dead_one_is_tried(made: Made) -> None:
    desk = made(d=DEAD)
    desk.judging.standing.lacks("no key")
    desk.probing.trial()
    assert [fqdn for fqdn, _, _ in desk.asked] == ["d"]


def test_in_trouble_without_a_machine_the_host_looks_at_itself(made: Made) -> None:
    desk = made(v=Node(alive=True, virtual=True))
    desk.judging.standing.lacks("no key")
    desk.probing.trial()
    assert (desk.asked, desk.judging.standing.trouble) == ([], None)
    desk.prober = None
    desk.judging.standing.lacks("no key")
    desk.probing.trial()
    assert desk.asked == []


def test_an_answer_in_trouble_that_a_machine_is_silent_says_that_the_host_can_ask(made: Made) -> None:
    desk = made(n=ALIVE)
    desk.judging.standing.lacks("no key")
    desk.probing.trial()
    desk.waits()
    desk.answers.pop("n")(SILENT)
    assert (desk.judging.standing.trouble, desk.sent) == (None, [])
    assert desk.waits() == {"n": round(1.1 * desk.settings.probe_seconds, 3)}

"""Jig script on a real machine: the five steps of its runner, and what a broken world makes of them."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Detached, Failed, Fenced, Lost, Succeeded, Unreachable
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.jigs.ssh.link import Broken
from nodepool_ocb.jigs.ssh.runner import Runner
from nodepool_ocb.telemetry.redaction import Mask
from tests.jigs.workshop import Annealer, until

COUNT = 'i=0; while [ $i -lt {n} ]; do echo "line $i"; i=$((i+1)); sleep 0.05; done'
LONG = 'trap "" TERM; echo $$ >"$OCB_RUN.pid"; sleep 300 & echo begun; sleep 300; echo never'


def lines(n: int) -> str:
    return "".join(f"line {i}\n" for i in range(n))


def snapshot(folder: Path) -> dict[str, bytes]:
    """Everything in the state directory but the history, and who may decide."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in ("history", "lock"))
    return {str(file): file.read_bytes() for file in files if not file.name.startswith("runner.")}


def alive(group: str) -> bool:
    try:
        os.killpg(int(group), 0)
    except ProcessLookupError:
        return False
    return any(_group(pid) == group for pid in os.listdir("/proc") if pid.isdigit())


def _group(pid: str) -> str:
    try:
        state, _, group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else group


# -- the plain case --


def test_a_script_runs_and_what_it_says_and_writes_comes_back(machine: Any, annealer: Any) -> None:
    script = (
        "echo out; echo err >&2; read_attribute a/b/1; read_attribute none default; write_attribute a/c cafe\n"
        "write_attribute --json d/0 '{\"n\": 1e3}'; printf 'two\\nlines' | write_attribute e; exit 0"
    )
    outcome = annealer.run(machine.order(script, attributes={"a": {"b": ["x", "OK"]}, "secret": "s3cret"}))
    expected = {"a": {"b": ["x", "OK"], "c": "cafe"}, "secret": "s3cret", "d": {"0": {"n": 1000.0}}, "e": "two\nlines"}
    written = {"a": {"c": "cafe"}, "d": {"0": {"n": 1000.0}}, "e": "two\nlines"}
    assert outcome == Succeeded(expected, 0, "out\nerr\nOK\ndefault\n", machine.log, written=written)
    assert machine.log.read_text() == outcome.tail
    assert machine.events() == ["start", "end"]
    assert {file.stat().st_mode & 0o077 for file in machine.state.rglob("*")} == {0}, "for the owner's eyes only"


def test_the_script_sees_an_ordinary_environment(machine: Any, annealer: Any) -> None:
    script = "umask; pwd; echo $OCB_ROLE; cat $OCB_ATTRIBUTES; cat; for s in HUP PIPE; do trap 'echo got' $s; kill -$s $$; done"
    outcome = annealer.run(machine.order(script, attributes={"ü": "ö"}))
    assert outcome.tail.splitlines() == ["0022", os.path.expanduser("~"), "ntp", '{"\\u00fc": "\\u00f6"}', "got", "got"]


@pytest.mark.parametrize("comment", ["", "# " + "x" * 5000, "# ü", "# \x80 %s \\n '"])
def test_a_script_arrives_as_it_is(machine: Any, annealer: Any, comment: str) -> None:
    script = f"#!/bin/bash -e\n{comment}\necho $BASH_VERSION '\\n%s'\tx\\\\y\nfalse\necho not reached"
    outcome = annealer.run(machine.order(script, attributes={"a": comment}))
    assert isinstance(outcome, Failed)
    assert outcome.reason == f"exit code 1: {outcome.tail.strip()}"
    assert outcome.tail.endswith(" \\n%s x\\y\n")
    assert machine.run_file("script").read_text().rstrip("\n") == script


def test_five_megabytes_of_output_come_whole(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order("seq 1 750000; seq 1 10 >&2"))
    assert outcome.exit_code == 0
    assert machine.log.read_text() == "".join(f"{n}\n" for n in [*range(1, 750_001), *range(1, 11)])
    assert len(outcome.tail) == 4096


def test_output_comes_while_the_script_runs(machine: Any, annealer: Any) -> None:
    script = 'echo early; until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done; printf late'
    outcome = annealer.begin(machine.order(script))
    until(lambda: machine.log.exists() and machine.log.read_text() == "early\n")
    machine.run_file("go").touch()
    assert outcome() == Succeeded({}, 0, "early\nlate", machine.log, written={})
    assert machine.log.read_text() == "early\nlate"


def test_output_is_followed_only_from_where_its_own_run_begins(machine: Any, annealer: Any, another: Any) -> None:
    first = another.begin(machine.order("echo of the first attempt; sleep 300", log=None))
    until(lambda: machine.run_file("output").exists())
    until(lambda: machine.run_file("output").read_text())
    stubborn = another.begin(machine.order(LONG, epoch=2, role="dns", log=None))
    until(lambda: machine.run_file("pid", "dns@1").exists())
    again = annealer.run(machine.order("echo of the second; sleep 1; echo late", epoch=3))
    assert again == Succeeded({}, 0, "of the second\nlate\n", machine.log, written={})
    assert first() == Fenced(2)
    assert stubborn() == Fenced(3)


def test_a_wrong_attribute_fails_the_run_with_a_sentence(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order("write_attribute --json a '{nonsense'"))
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("write_attribute a: not JSON")


# -- the five steps --


def test_an_order_of_a_lower_epoch_changes_nothing(machine: Any, annealer: Any, another: Any) -> None:
    annealer.run(machine.order("echo new", epoch=7, role="dns"))
    before = snapshot(machine.state)
    assert another.run(machine.order("echo old", epoch=6)) == Fenced(7)
    assert snapshot(machine.state) == before
    assert machine.events() == ["start", "end", "fence"]


def test_an_order_of_a_lower_epoch_does_not_touch_what_runs(machine: Any, annealer: Any, another: Any) -> None:
    outcome = annealer.begin(machine.order("sleep 1; echo done", epoch=7))
    until(lambda: machine.events("start"))
    assert another.run(machine.order("echo old", epoch=6)) == Fenced(7)
    assert another.run(machine.order("echo old", epoch=6, role="dns")) == Fenced(7)
    assert outcome() == Succeeded({}, 0, "done\n", machine.log, written={})


def test_a_take_over_attaches_to_what_runs(machine: Any, annealer: Any, another: Any) -> None:
    order = machine.order(COUNT.format(n=30), log=None)
    first = annealer.begin(order)
    until(lambda: machine.events("start"))
    second = another.begin(machine.order(COUNT.format(n=30), epoch=2, previous_epoch=1))
    assert second().tail == lines(30)
    assert first().tail == lines(30)
    assert machine.log.read_text() == lines(30)
    assert machine.events() == ["start", "attach", "end"]


def test_a_take_over_adopts_what_has_finished(machine: Any, annealer: Any, another: Any) -> None:
    script = "echo hello; write_attribute a b; exit 3"
    annealer.run(machine.order(script, log=None))
    outcome = another.run(machine.order(script, epoch=2, previous_epoch=1))
    assert outcome == Failed("exit code 3: hello", 3, "hello\n", {"a": "b"}, machine.log)
    assert machine.events() == ["start", "end", "adopt"]


ODD = {"a": "caf\u00e9", "b": ["x" * 50_000, "\x01"]}  # too much, and too strange, to go by lines


@pytest.mark.parametrize("attributes", [{"a": 1}, ODD], ids=["by lines", "by bytes"])
@pytest.mark.parametrize("script", ["echo 1; sleep 1", "true"], ids=["goes on", "has ended"])
@pytest.mark.parametrize("other", [{}, {"attributes": {"a": 2}}, {"script": "echo 2; sleep 1"}], ids=str)
def test_a_take_over_knows_whether_what_ran_was_given_what_its_order_brings(
    machine: Any, annealer: Any, another: Any, attributes: dict[str, Any], script: str, other: dict[str, Any]
) -> None:
    annealer.begin(machine.order(script, attributes=attributes))
    until(lambda: machine.events("start" if "sleep" in script else "end"))
    order = {"script": script, "attributes": attributes} | other
    outcome = another.run(machine.order(**order, epoch=2, previous_epoch=1))
    assert isinstance(outcome, Succeeded)
    assert outcome.ordered is (not other)


@pytest.mark.parametrize("newer", [{"generation": 2}, {"role": "dns"}, {"role": "dns", "epoch": 1}])
def test_another_order_ends_all_of_what_runs_before_it_starts(
    machine: Any, annealer: Any, another: Any, newer: dict[str, Any]
) -> None:
    first = annealer.begin(machine.order(LONG, log=None))
    until(lambda: machine.run_file("pid").exists())
    group = machine.history[0].group
    assert another.run(machine.order("echo two", **({"epoch": 2} | newer))).exit_code == 0
    assert not alive(group)
    assert machine.events() == ["start", "ended", "start", "end"]
    assert first() == Fenced(newer.get("epoch", 2))


def test_orders_from_all_sides_never_run_side_by_side(machine: Any, annealer: Any, another: Any) -> None:
    orders = [machine.order("sleep 0.02; echo x", epoch=n, role=f"r{n}", log=None) for n in range(1, 21)]
    outcomes = [(annealer, another)[n % 2].begin(order) for n, order in enumerate(orders)]
    kinds = {type(outcome()) for outcome in outcomes}
    assert kinds <= {Succeeded, Fenced}
    runs = [event for event in machine.history if event.event in ("start", "end", "ended")]
    assert [event.event == "start" for event in runs] == [n % 2 == 0 for n in range(len(runs))]
    assert all(a.uptime <= b.uptime for a, b in pairwise(runs))
    assert all(a.epoch <= b.epoch for a, b in pairwise(event for event in runs if event.event == "start"))


def test_an_idle_runner_locks_nothing_and_nobody_who_is_gone_is_waited_for(
    machine: Any, annealer: Any, another: Any
) -> None:
    annealer.run(machine.order("true"))
    (mine,) = machine.state.glob("runner.*")
    assert mine.read_text() == "idle\n"
    assert not (machine.state / "lock").exists(), "it was alone"
    assert another.run(machine.order("true", epoch=2, role="dns")).exit_code == 0
    assert len(list(machine.state.glob("runner.*"))) == 2
    another.jig.close()
    until(lambda: list(machine.state.glob("runner.*")) == [mine])
    (machine.state / "runner.killed").write_text("busy\n")
    assert annealer.run(machine.order("true", epoch=3, role="ntp")).exit_code == 0
    assert list(machine.state.glob("runner.*")) == [mine]


# -- time --


def test_the_machine_ends_a_run_at_its_time_out_and_leaves_no_process(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order("echo begun; sleep 300 & sleep 300", timeout_seconds=1.0))
    assert outcome == Failed("timed out after 1 s", 124, "begun\n", {}, machine.log)
    assert not alive(machine.history[0].group)


def test_a_run_that_nobody_waits_for_ends_at_its_time_out(machine: Any, annealer: Any) -> None:
    outcome = annealer.begin(machine.order("sleep 300", timeout_seconds=2.0))
    until(lambda: machine.events("start"))
    annealer.stop.set()
    assert outcome() == Detached()
    annealer.jig.close()
    until(lambda: machine.events("end"))
    assert not alive(machine.history[0].group)


def test_processes_left_in_the_group_of_a_finished_script_are_ended(machine: Any, annealer: Any) -> None:
    assert annealer.run(machine.order("sleep 300 & echo done")).tail == "done\n"
    assert not alive(machine.history[0].group)


def test_stop_detaches_and_leaves_the_run_alone(machine: Any, annealer: Any, another: Any) -> None:
    outcome = annealer.begin(machine.order("sleep 1; echo done", log=None))
    until(lambda: machine.events("start"))
    annealer.stop.set()
    began = time.monotonic()
    assert outcome() == Detached()
    assert time.monotonic() - began < 1.0
    assert another.run(machine.order("sleep 1; echo done", epoch=2, previous_epoch=1)).tail == "done\n"
    assert len(machine.events("start")) == 1


def test_end_ends_the_run_and_all_of_it(machine: Any, annealer: Any, another: Any) -> None:
    order = machine.order(LONG)
    outcome = annealer.begin(order)
    until(lambda: machine.run_file("pid").exists())
    assert another.jig.cancel(machine.order("", epoch=2)) is None
    assert not alive(machine.history[0].group)
    assert outcome() == Fenced(2)
    assert another.jig.cancel(machine.order("", epoch=3)) is None, "nothing runs: nothing to do"
    assert annealer.jig.cancel(machine.order("", epoch=1)) == Fenced(3)


# -- links --


def test_a_broken_connection_loses_nothing_and_starts_nothing_twice(machine: Any, annealer: Any) -> None:
    outcome = annealer.begin(machine.order(COUNT.format(n=60)))
    for wanted in (3, 15, 30):
        until(lambda wanted=wanted: machine.log.exists() and len(machine.log.read_text().splitlines()) >= wanted)
        machine.farm.cut(0)
    assert outcome().tail == lines(60)
    assert machine.log.read_text() == lines(60)
    assert machine.events("start") == ["start"]
    assert "attach" in machine.events()


def test_a_frozen_machine_is_unreachable_in_bounded_time_and_its_run_is_found_again(machine: Any) -> None:
    annealer = Annealer(machine.settings(connect_timeout_seconds=1.0))
    outcome = annealer.begin(machine.order(COUNT.format(n=20)))
    until(lambda: machine.events("start"))
    machine.farm.freeze(0)
    began = time.monotonic()
    assert isinstance(outcome(), Unreachable)
    assert time.monotonic() - began < 12.0
    machine.farm.thaw(0)
    again = annealer.run(machine.order(COUNT.format(n=20), epoch=2, previous_epoch=1, log=None))
    assert again.tail == lines(20)
    assert machine.events("start") == ["start"]
    annealer.jig.close()


def test_a_frozen_machine_with_a_kept_connection_is_unreachable_too(machine: Any) -> None:
    annealer = Annealer(machine.settings(connect_timeout_seconds=1.0))
    annealer.run(machine.order("true"))
    machine.farm.freeze(0)
    began = time.monotonic()
    assert isinstance(annealer.run(machine.order("true", epoch=2)), Unreachable)
    assert time.monotonic() - began < 12.0
    annealer.jig.close()


def test_a_machine_that_is_switched_off_is_unreachable_and_comes_back(machine: Any) -> None:
    annealer = Annealer(machine.settings(connect_timeout_seconds=1.0))
    outcome = annealer.begin(machine.order("sleep 300"))
    until(lambda: machine.events("start"))
    machine.farm.kill(0)
    assert isinstance(outcome(), Unreachable)
    machine.farm.start(0)
    machine.forget_boot()
    assert annealer.run(machine.order("echo again", epoch=2, previous_epoch=1, log=None)).tail == "again\n"
    assert machine.events() == ["start", "lost", "start", "end"]
    annealer.jig.close()


def test_a_state_directory_that_cannot_be_made_is_said_in_words(machine: Any) -> None:
    annealer = Annealer(machine.settings(state_dir="/proc/no/such"))
    outcome = annealer.run(machine.order("true"))
    assert isinstance(outcome, Unreachable)
    assert outcome.step == "run"
    assert "/proc/no" in outcome.reason


# -- what must not be done twice --


@pytest.mark.parametrize("end", ["reboot", "killed keeper"])
@pytest.mark.parametrize("flags", [(), ("destructive",)])
def test_a_run_whose_end_nobody_saw(
    machine: Any, annealer: Any, another: Any, end: str, flags: tuple[str, ...]
) -> None:
    outcome = annealer.begin(machine.order("sleep 300", flags=flags, log=None))
    until(lambda: machine.events("start"))
    annealer.stop.set()
    assert outcome() == Detached()
    group = machine.history[0].group
    if end == "reboot":
        machine.farm.kill(0)
        machine.farm.start(0)
        machine.forget_boot()
    else:
        os.kill(int((machine.state / "current").read_text().split()[5]), signal.SIGKILL)
    taken = another.run(machine.order("echo again", flags=flags, epoch=2, previous_epoch=1))
    assert not alive(group)
    if flags:
        assert taken == Lost("it was started, and its end was not seen")
        assert len(machine.events("start")) == 1
    else:
        assert taken == Succeeded({}, 0, "again\n", machine.log, written={})


def test_a_destructive_role_is_not_started_on_a_machine_that_forgot_everything(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order("echo again", flags=("destructive",), epoch=2, previous_epoch=1))
    assert isinstance(outcome, Lost)
    assert machine.events() == []


def test_a_destructive_role_is_started_when_the_first_order_never_came(machine: Any, annealer: Any) -> None:
    annealer.run(machine.order("true", epoch=3, role="dns"))
    outcome = annealer.run(machine.order("echo first", flags=("destructive",), epoch=5, previous_epoch=4))
    assert outcome.exit_code == 0


def test_a_destructive_role_is_started_once_though_its_annealer_asks_twice(machine: Any) -> None:
    annealer = Annealer(machine.settings(connect_timeout_seconds=1.0))
    begun = machine.farm.directory / "begun"
    script = f'rm -rf "${{OCB_RUN%/runs/*}}"; true >{begun}; kill -9 $PPID; sleep 300'
    order = machine.order(script, flags=("destructive",))
    outcome = annealer.begin(order)
    until(begun.exists)
    machine.farm.kill(0)
    first = outcome()
    machine.farm.start(0)
    assert isinstance(first, Unreachable)
    assert isinstance(annealer.run(order), Lost)
    annealer.jig.close()


def test_a_run_whose_keeper_is_killed_is_lost_and_is_not_started_again_by_the_same_order(
    machine: Any, annealer: Any
) -> None:
    outcome = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    os.kill(int((machine.state / "current").read_text().split()[5]), signal.SIGKILL)
    assert outcome() == Lost("the keeper of the run was killed")
    assert machine.events() == ["start", "ended"]
    assert annealer.run(machine.order("echo anew", epoch=2, generation=2, log=None)).tail == "anew\n"
    assert machine.events() == ["start", "ended", "start", "end"]


@pytest.mark.parametrize("loss", ["killed keeper", "state directory"])
def test_a_run_that_is_lost_while_nobody_is_connected_is_not_started_again_by_the_same_order(
    machine: Any, annealer: Any, loss: str
) -> None:
    outcome = annealer.begin(machine.order("sleep 300", log=None))
    until(lambda: machine.events("start"))
    machine.farm.unplug(0)
    if loss == "killed keeper":
        machine.farm.kill_keeper(0)
    else:
        machine.farm.lose_state(0)
    machine.farm.start(0)
    assert isinstance(outcome(), Lost)
    assert not machine.farm.at_work(0)
    assert sum(len(machine.events_in(state, "start")) for state in machine.farm.memories(machine.fqdn)) == 1


def test_an_order_that_is_given_again_and_again_to_a_machine_without_memory_starts_nothing(
    machine: Any, annealer: Any
) -> None:
    """The answer to the first may be lost; by the second the machine has a record of the first."""
    forget_run(machine, annealer, "sleep 300")
    link = annealer.jig._pool.take(machine.fqdn, machine.node)
    for _ in range(3):
        runner = Runner(link, machine.settings().state_dir, 5.0)
        runner.send(protocol.run(machine.order("sleep 300", log=None), runner.token, 1, 0))
        answers: list[Any] = []
        until(lambda runner=runner, answers=answers: answers.extend(runner.hear(0.1)) or answers)
        assert answers[0].word == "GONE"
        runner.close()
    assert machine.events("start") == []


def forget_run(machine: Any, annealer: Any, script: str) -> Any:
    """Begin a run, leave it alone, and take away its machine's state directory; gives what still runs there."""
    outcome = annealer.begin(machine.order(script, log=None))
    until(lambda: machine.events("start"))
    annealer.stop.set()
    assert outcome() == Detached()
    machine.farm.lose_state(0)
    return machine.farm.at_work(0)


def test_what_a_machine_has_no_record_of_ends_before_anything_else_begins(machine: Any, annealer: Any) -> None:
    forgotten = forget_run(machine, annealer, "sleep 300")
    annealer.stop.clear()
    taken = annealer.run(machine.order("sleep 1; echo alone", epoch=2, role="dns", log=None))
    assert (taken.exit_code, taken.tail) == (0, "alone\n")
    assert forgotten
    assert not {*forgotten} & {*machine.farm.processes(0)}
    assert not machine.farm.at_work(0)


def test_what_a_machine_has_no_record_of_ends_first_though_the_order_is_given_again(
    machine: Any, annealer: Any, another: Any
) -> None:
    """Whoever was to end it is killed meanwhile; the machine has a record of that order by then."""
    forgotten = forget_run(machine, annealer, "trap '' TERM; while :; do sleep 0.1; done")
    before = {*runners(machine)}
    taken = another.begin(machine.order("echo alone", epoch=2, role="dns", log=None))
    until(lambda: (machine.state / "epoch.0").exists())
    for runner in {*runners(machine)} - before:
        with suppress(ProcessLookupError):
            os.kill(runner, signal.SIGKILL)
    assert taken().tail == "alone\n"
    assert forgotten
    assert not machine.farm.at_work(0)


def runners(machine: Any) -> list[int]:
    """The processes of the runner's program, keepers included."""
    found = []
    for pid in machine.farm.processes(0):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"sh\0{machine.state}/runner-".encode()):
                found.append(pid)
    return found


@pytest.mark.parametrize("script", ["echo short\n", "echo long\n" * 1000], ids=["lines", "bytes"])
@pytest.mark.parametrize("missing", [1, 30, 200])
def test_of_an_order_whose_end_did_not_come_nothing_is_run(
    machine: Any, annealer: Any, script: str, missing: int
) -> None:
    """Whoever sent it was killed in the middle: half a script is not run."""
    attributes = {"a": "x" * 300}
    link = annealer.jig._pool.take(machine.fqdn, machine.node)
    runner = Runner(link, machine.settings().state_dir, 5.0)
    order = protocol.run(machine.order(script, epoch=2, attributes=attributes), runner.token, None, None)
    runner._channel.sendall(order[:-missing])
    runner._channel.shutdown_write()
    with pytest.raises(Broken):
        list(chain.from_iterable(runner.hear(5.0) for _ in count()))
    annealer.jig._pool.give_back(link)
    until(lambda: not runners(machine))
    assert machine.events() == []
    assert annealer.run(machine.order("echo whole", epoch=3)).tail == "whole\n"


def test_files_of_the_state_directory_that_are_removed_between_two_orders_cost_no_run(
    machine: Any, annealer: Any
) -> None:
    assert annealer.run(machine.order("echo one", log=None)).tail == "one\n"
    for each in machine.state.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    outcome = annealer.run(machine.order("echo two", epoch=2, generation=2, log=None))
    assert not isinstance(outcome, Failed), outcome


def test_what_a_script_left_running_for_good_goes_on_though_the_state_directory_is_removed(
    machine: Any, annealer: Any, another: Any
) -> None:
    leave = "setsid sleep 300 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.1; done; echo $!"
    left = annealer.run(machine.order(leave, log=None)).tail.strip()
    machine.farm.lose_state(0)
    assert another.run(machine.order("echo anew", epoch=2, role="dns", log=None)).tail == "anew\n"
    assert alive(left)


def test_a_killed_runner_that_attached_is_noticed_and_the_run_goes_on(
    machine: Any, annealer: Any, another: Any
) -> None:
    script = 'until [ -e "$OCB_RUN.go" ]; do sleep 0.05; done; echo done'
    annealer.begin(machine.order(script, log=None))
    until(lambda: machine.events("start"))
    before = {*runners(machine)}
    outcome = another.begin(machine.order(script, epoch=2, previous_epoch=1))
    until(lambda: machine.events("attach"))
    for runner in {*runners(machine)} - before:
        with suppress(ProcessLookupError):
            os.kill(runner, signal.SIGKILL)
    until(lambda: len(machine.events("attach")) == 2)
    machine.run_file("go").touch()
    assert outcome() == Succeeded({}, 0, "done\n", machine.log, written={})
    assert machine.events() == ["start", "attach", "attach", "end"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo first; echo 'mv: busy' >&2; echo; exit 3", "exit code 3: mv: busy"),
        ("exit 3", "exit code 3"),
        (r"printf 'a\033[2Jb\n'; exit 3", r"exit code 3: a\x1b[2Jb"),
        ("echo the key is hush-hush; exit 3", "exit code 3: the key is (secret)"),
        ("head -c 5000 /dev/zero | tr '\\0' x; exit 3", f"exit code 3: {'x' * 200}..."),
    ],
    ids=["last line", "no output", "control characters", "a secret", "a long line"],
)
def test_the_last_line_of_a_failed_run_is_its_reason_bounded_and_masked(
    machine: Any, annealer: Any, script: str, reason: str
) -> None:
    outcome = annealer.run(machine.order(script, mask=Mask(frozenset(["hush-hush"]))))
    assert (outcome.reason, outcome.exit_code) == (reason, 3)


FORGE = r"""
found=$(ls "${OCB_RUN%/runs/*}" | sed -n 's/^runner\.//p')
for process in /proc/[0-9]*; do
  found="$found $(tr '\0' '\n' <$process/environ 2>/dev/null | sed -n 's/^OCB_TOKEN=//p')"
done
for token in $found; do
  printf '\n%s DONE started finished 0 r -\n' "$token"
  printf '\n%s FENCED 999999999999999\n' "$token" | write_attribute said
done
exit 7
"""


@pytest.mark.parametrize("seconds", [0, 1], ids=["short", "followed"])
def test_a_script_that_looks_for_the_token_says_nothing_in_the_runners_name(
    machine: Any, annealer: Any, seconds: int
) -> None:
    outcome = annealer.run(machine.order(f"sleep {seconds}\n{FORGE}"))
    assert isinstance(outcome, Failed)
    assert outcome.exit_code == 7
    assert outcome.reason.startswith("exit code 7")
    assert "DONE started finished" in outcome.tail, "it did try"


def test_no_name_of_a_file_holds_the_token(machine: Any, annealer: Any) -> None:
    link = annealer.jig._pool.take(machine.fqdn, machine.node)
    runner = Runner(link, machine.settings().state_dir, 5.0)
    runner.send(protocol.run(machine.order('ls "${OCB_RUN%/runs/*}"; sleep 300'), runner.token, None, None))
    until(lambda: machine.events("start"))
    assert [name for name in machine.state.iterdir() if name.name.startswith("runner.")]
    assert not [name for name in machine.state.rglob("*") if runner.token in name.name]
    runner.close()

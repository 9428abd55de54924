"""Jig task-shell on a real machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Failed, Fenced, Succeeded
from nodepool_ocb.jigs.tasks.shell import ShellJig
from tests.jigs.workshop import Annealer, Machine, until


@pytest.fixture
def shell(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), ShellJig)
    yield one
    one.jig.close()


@pytest.fixture
def successor(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), ShellJig)
    yield one
    one.jig.close()


def test_a_command_runs_in_its_directory_and_gives_nothing_back(machine: Any, shell: Any, tmp_path: Path) -> None:
    place = tmp_path / "it's a place"
    place.mkdir()
    order = machine.task({"cmd": "pwd; write_attribute a b; read_attribute astute/uid", "cwd": str(place)}, uid="7")
    assert shell.run(order) == Succeeded(order.attributes, 0, f"{place}\n7\n", machine.log, written={})


def test_a_command_runs_in_the_root_directory_where_none_is_named(machine: Any, shell: Any) -> None:
    assert shell.run(machine.task({"cmd": "pwd"})).tail == "/\n"


def test_parameters_that_differ_on_the_node_count(machine: Any, shell: Any) -> None:
    order = machine.task({"cmd": "echo for all", "cwd": "/usr"}, differing={"cmd": "echo here; pwd"})
    assert shell.run(order).tail == "here\n/usr\n"


def test_the_nodes_own_facts_are_put_into_texts_and_nothing_else_is(machine: Any, shell: Any) -> None:
    order = machine.task({"cmd": "uid=x; echo '{uid} {fqdn} {CN_HOSTNAME}' ${uid} '{tasks} {SECRET}'"}, uid="7")
    assert shell.run(order).tail == f"7 {machine.fqdn} {machine.fqdn} x {{tasks}} {{SECRET}}\n"


def test_a_command_of_several_lines_is_one_script_and_on_no_command_line(machine: Any, shell: Any) -> None:
    cmd = "secret=hush-hush\nif true; then\n  tr '\\0' ' ' </proc/$$/cmdline\nfi\ncat <<X\n$secret\nX\n"
    said = shell.run(machine.task({"cmd": cmd})).tail
    assert said.endswith("hush-hush\n")
    assert said.count("hush-hush") == 1


def test_a_command_that_fails_fails_the_task_with_its_exit_code(machine: Any, shell: Any) -> None:
    outcome = shell.run(machine.task({"cmd": "echo no; exit 3"}))
    assert outcome == Failed("exit code 3: no", 3, "no\n", None, machine.log)


def test_a_directory_that_is_not_there_is_the_reason(machine: Any, shell: Any) -> None:
    outcome = shell.run(machine.task({"cmd": "true", "cwd": "/no/such"}))
    assert isinstance(outcome, Failed)
    assert outcome.reason == "there is no directory /no/such"


@pytest.mark.parametrize("parameters", [{}, {"cmd": ["ls"]}])
def test_parameters_that_are_none_are_refused_before_anything_runs(
    machine: Any, shell: Any, parameters: dict[str, Any]
) -> None:
    outcome = shell.run(machine.task(parameters))
    assert isinstance(outcome, Failed)
    assert "its parameters are wrong" in outcome.reason
    assert "cmd" in outcome.reason
    assert machine.events() == []


def test_the_machine_ends_a_command_at_the_tasks_time_out(machine: Any, shell: Any) -> None:
    outcome = shell.run(machine.task({"cmd": "echo task: begun; sleep 300"}, timeout_seconds=1.0))
    assert outcome.reason == "timed out after 1 s"


def test_a_noop_run_says_the_command_and_does_not_run_it(machine: Any, shell: Any, tmp_path: Path) -> None:
    cmd = f"touch {shlex.quote(str(tmp_path / 'done'))}"
    outcome = shell.run(machine.task({"cmd": cmd}, noop=True))
    assert outcome.tail == f"would run in /: {cmd}\n"
    assert not (tmp_path / "done").exists()


def test_a_task_is_attached_to_by_a_successor_and_not_run_twice(machine: Any, shell: Any, successor: Any) -> None:
    parameters = {"cmd": "echo begun; sleep 1; echo done"}
    first = shell.begin(machine.task(parameters, log=None))
    until(lambda: machine.events("start"))
    assert successor.run(machine.task(parameters, epoch=2, previous_epoch=1)).tail == "begun\ndone\n"
    assert first().tail == "begun\ndone\n"
    assert shell.run(machine.task(parameters, role="dns")) == Fenced(2)
    assert machine.events() == ["start", "attach", "end", "fence"]


def test_a_task_is_ended_on_the_machine_when_it_is_cancelled(machine: Any, shell: Any, successor: Any) -> None:
    outcome = shell.begin(machine.task({"cmd": "sleep 300"}))
    until(lambda: machine.events("start"))
    assert successor.jig.cancel(machine.task({}, epoch=2)) is None
    assert outcome() == Fenced(2)

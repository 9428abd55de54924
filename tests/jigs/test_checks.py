"""Jig script is asked whether a machine is as a role left it: what it runs then, what it says of it, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.drift import HONOURED
from nodepool_ocb.jigs import Failed, Order, Succeeded


def check_of(machine: Any, script: str, check: str | None, **more: Any) -> Order:
    order: Order = machine.order(script, **more)
    return replace(order, check=True, definition=replace(order.definition, check=check))


def test_a_check_of_its_own_runs_in_place_of_the_script(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(check_of(machine, "echo changed", "echo looked; exit 2"))
    assert outcome.reason == "exit code 2", "a line of output may be a line of a file"
    assert isinstance(outcome, Failed)
    assert (outcome.exit_code, outcome.tail) == (2, "looked\n")


def test_a_script_that_honours_it_gets_an_argument_and_only_then(machine: Any, annealer: Any) -> None:
    script = 'echo "$#:${1-}:${OCB_CHECK-}"'
    own = check_of(machine, script, script, generation=3)
    assert annealer.run(check_of(machine, script, HONOURED, generation=1)).tail == "1:--check:1\n"
    assert annealer.run(machine.order(script, generation=2)).tail == "0::\n"
    assert annealer.run(own).tail == "0::1\n", "its own check gets no argument"


def test_a_role_that_lost_its_check_meanwhile_runs_nothing(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(check_of(machine, "echo changed >changed", None))
    assert isinstance(outcome, Failed)
    assert machine.events() == []


def test_a_destructive_role_is_checked_as_often_as_one_likes(machine: Any, annealer: Any) -> None:
    order = check_of(machine, "exit 1", "echo looked")
    order = replace(order, definition=replace(order.definition, flags=("destructive",)), previous_epoch=1)
    assert isinstance(annealer.run(order), Succeeded)


LIBRARY = '. "$OCB_LIBRARY"\nplace=$(read_attribute place)\nlines one two | put "$place/file" 640\n'


@pytest.mark.parametrize(
    ("file", "mode", "code", "said"),
    [
        ("one\ntwo\n", 0o640, 0, ""),
        ("one\nmine\n", 0o640, 2, "-mine\n+two\n"),
        ("one\ntwo\n", 0o600, 2, "has mode 600, and is to have 640"),
        (None, 0, 2, "is not there"),
    ],
)
def test_the_library_of_scripts_shows_a_difference_and_changes_nothing(
    machine: Any, annealer: Any, tmp_path: Path, file: str | None, mode: int, code: int, said: str
) -> None:
    path = tmp_path / "file"
    if file is not None:
        path.write_text(file)
        path.chmod(mode)
    order = check_of(machine, LIBRARY, HONOURED, attributes={"place": str(tmp_path)})
    outcome = annealer.run(order)
    assert outcome.exit_code == code
    assert said in outcome.tail
    assert (path.read_text() if path.exists() else None) == file
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] in ([], ["file"]), "nothing beside it"


TRAPS = {
    "a trap of its own": "trap 'echo tidied' EXIT",
    "its trap is taken back": "trap - EXIT",
    "another program takes its place": "exec true",
    "a wrong word about itself": "exit 0",
}


@pytest.mark.parametrize("after", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize(("file", "code"), [("one\ntwo\n", 0), ("one\nmine\n", 2)])
def test_what_was_found_counts_whatever_the_script_does_then(
    machine: Any, annealer: Any, tmp_path: Path, after: str, file: str, code: int
) -> None:
    (tmp_path / "file").write_text(file)
    (tmp_path / "file").chmod(0o640)
    order = check_of(machine, LIBRARY + after, HONOURED, attributes={"place": str(tmp_path)})
    assert annealer.run(order).exit_code == code


def test_a_check_of_its_own_that_puts_compares(machine: Any, annealer: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine\n")
    assert annealer.run(check_of(machine, "true", LIBRARY, attributes={"place": str(tmp_path)})).exit_code == 2
    assert (tmp_path / "file").read_text() == "mine\n"


@pytest.mark.parametrize("why", ["cat() { return 1; }", 'lines x | put "$place/other" no-mode'])
def test_what_could_not_be_compared_is_no_word_for_in_sync(
    machine: Any, annealer: Any, tmp_path: Path, why: str
) -> None:
    """The script does not look at what put says."""
    for name, text in (("file", "one\ntwo\n"), ("other", "x\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o640)
    head, _, last = LIBRARY.strip().rpartition("\n")
    order = check_of(machine, f"{head}\n{why}\n{last}\ntrue\n", HONOURED, attributes={"place": str(tmp_path)})
    assert annealer.run(order).exit_code == 1


@pytest.mark.parametrize(("mode", "code"), [("0640", 0), ("u=rw,g=r,o=", 0), ("0600", 2)])
def test_a_mode_is_compared_as_what_it_comes_to(
    machine: Any, annealer: Any, tmp_path: Path, mode: str, code: int
) -> None:
    (tmp_path / "file").write_text("one\ntwo\n")
    (tmp_path / "file").chmod(0o640)
    script = LIBRARY.replace("640", mode)
    assert annealer.run(check_of(machine, script, HONOURED, attributes={"place": str(tmp_path)})).exit_code == code


def test_a_mode_has_nothing_from_the_file_before(machine: Any, annealer: Any, tmp_path: Path) -> None:
    for name, mode in (("first", 0o600), ("second", 0o744)):
        (tmp_path / name).write_text("x\n")
        (tmp_path / name).chmod(mode)
    script = '. "$OCB_LIBRARY"\nplace=$(read_attribute place)\n'
    script += 'lines x | put "$place/first" 600\nlines x | put "$place/second" u+x\n'
    outcome = annealer.run(check_of(machine, script, HONOURED, attributes={"place": str(tmp_path)}))
    assert (outcome.exit_code, outcome.tail) == (0, "")


def test_what_a_check_leaves_does_not_judge_the_next_run(machine: Any, annealer: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine\n")
    attributes = {"place": str(tmp_path)}
    assert annealer.run(check_of(machine, LIBRARY, HONOURED, attributes=attributes, epoch=1)).exit_code == 2
    assert annealer.run(machine.order(LIBRARY, attributes=attributes, epoch=2, generation=2)).exit_code == 0
    again = check_of(machine, LIBRARY, HONOURED, attributes=attributes, epoch=3, generation=3)
    assert annealer.run(again).exit_code == 0


def test_a_script_that_fails_in_a_check_says_that_and_not_drift(machine: Any, annealer: Any, tmp_path: Path) -> None:
    script = f"set -eu\n{LIBRARY}read_attribute not/there\n"
    outcome = annealer.run(check_of(machine, script, HONOURED, attributes={"place": str(tmp_path)}))
    assert isinstance(outcome, Failed)
    assert outcome.exit_code not in (0, 2)

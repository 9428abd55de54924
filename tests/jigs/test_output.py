"""The file of a run's output begins with its first byte: a run that prints nothing has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.jigs import Succeeded
from nodepool_ocb.jigs.output import Output
from nodepool_ocb.telemetry.redaction import Mask


def test_without_a_byte_there_is_no_file_and_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "n1.example.com" / "run.log"
    with Output(file) as output:
        output.take(0, b"")
        assert output.file is None
    assert (output.file, output.tail) == (None, "")
    assert not file.parent.exists()


def test_with_the_first_byte_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "n1.example.com" / "run.log"
    with Output(file) as output:
        output.take(0, b"a")
        assert file.read_bytes() == b"a", "for those that follow it"
    assert output.file == file


@pytest.mark.parametrize("old", [b"of an earlier order\n", None])
def test_a_run_that_is_started_anew_clears_the_file_of_an_earlier_order_alone(
    tmp_path: Path, old: bytes | None
) -> None:
    file = tmp_path / "run.log"
    if old is not None:
        file.write_bytes(old)
    with Output(file) as output:
        output.restart()
    assert (file.exists(), output.file) == ((True, file) if old else (False, None))
    assert not old or file.read_bytes() == b""


def test_a_file_that_was_cut_is_not_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    with Output(file, 10) as output:
        output.take(0, b"x" * 20)
        size = file.stat().st_size
        output.take(20, b"more")
    assert (file.stat().st_size, output.file) == (size, file)


def test_a_file_that_cannot_be_made_is_tried_once(tmp_path: Path) -> None:
    file = tmp_path / "file" / "run.log"
    file.parent.touch()
    with Output(file) as output:
        output.take(0, b"one\n")
        file.parent.unlink()
        output.take(4, b"two\n")
    assert (output.file, output.tail) == (None, "one\ntwo\n")
    assert not file.exists(), "a log with a hole would look whole"


@pytest.mark.parametrize(("script", "kept"), [("sleep 0.5", False), ("sleep 0.5; echo x", True)])
def test_a_silent_run_has_no_log_and_its_outcome_names_none(
    machine: Any, annealer: Any, script: str, kept: bool
) -> None:
    """It takes long enough to be followed."""
    log = machine.log if kept else None
    assert annealer.run(machine.order(script)) == Succeeded({}, 0, "x\n" if kept else "", log, written={})
    assert machine.log.exists() is kept


def test_output_that_may_be_the_beginning_of_a_secret_up_to_its_end_has_its_log(machine: Any, annealer: Any) -> None:
    outcome = annealer.run(machine.order("printf secr", mask=Mask(frozenset({"secret-of-ntp"}))))
    assert (outcome.tail, outcome.log) == ("secr", machine.log)
    assert machine.log.read_text() == "secr"

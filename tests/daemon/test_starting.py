"""What a daemon does before its first turn: the modes of its files, and too little memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nodepool_ocb.config import Settings
from nodepool_ocb.daemon.command import CommandOptions, program
from nodepool_ocb.model.rights import ClientKind


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """That of this process is put back."""
    before = os.umask(0)
    yield
    os.umask(before)


def daemon(kind: ClientKind, raised: BaseException | None = None, file: Path | None = None) -> click.Command:
    def run(_: CommandOptions, __: Settings) -> None:
        if file is not None:
            file.mkdir()
        if raised is not None:
            raise raised

    return program(kind, "a test", run, check=lambda _: None)


@pytest.mark.parametrize(("kind", "mode"), [(ClientKind.ANNEALER, 0o700), (ClientKind.BUILDER, 0o755)])
def test_what_a_daemon_makes_is_written_by_nobody_else_whatever_its_umask(
    tmp_path: Path, kind: ClientKind, mode: int
) -> None:
    assert CliRunner().invoke(daemon(kind, file=tmp_path / "made"), []).exit_code == 0
    assert (tmp_path / "made").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("raised", "said"),
    [(MemoryError(), "not enough memory"), (RuntimeError("can't start new thread"), "no thread can be started")],
)
def test_a_host_with_too_little_room_is_said_in_a_sentence(raised: BaseException, said: str) -> None:
    result = CliRunner().invoke(daemon(ClientKind.ANNEALER, raised), [])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert said in result.output


def test_another_error_keeps_its_traceback() -> None:
    result = CliRunner().invoke(daemon(ClientKind.ANNEALER, RuntimeError("a bug")), [])
    assert isinstance(result.exception, RuntimeError)

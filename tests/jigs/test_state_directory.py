"""A state directory that another user made or may write: nothing of it is run, and nothing is written through its links."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.jigs.ssh.protocol import command as first_command
from nodepool_ocb.jigs.ssh.protocol import installation, installer

OTHER = 61234

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


def bootstrapped(state: Path | str) -> subprocess.CompletedProcess[str]:
    """What a first connection does; the runner's READY ends it."""
    said = installation().decode()
    command = ["sh", "-c", first_command(str(state), 0.0)]
    return subprocess.run(command, input=said, text=True, capture_output=True, timeout=30, check=False)


def planted(state: Path) -> None:
    """A whole state directory, with a runner by its public digest."""
    programs = state / f"runner-{installer()[1]}"
    (state / "runs").mkdir(parents=True)
    (programs / "bin").mkdir(parents=True)
    (programs / "runner").write_text(f"id >{state.parent}/obeyed\n")


def of_another(state: Path) -> None:
    planted(state)
    subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", str(state)], check=True)


def runner_of_another(state: Path) -> None:
    planted(state)
    subprocess.run(["chown", "-R", f"{OTHER}:{OTHER}", str(state / f"runner-{installer()[1]}")], check=True)


def link(state: Path) -> None:
    planted(state.with_name("theirs"))
    state.symlink_to("theirs")


def for_all(state: Path) -> None:
    state.mkdir()
    state.chmod(0o1777)


def for_a_group(state: Path) -> None:
    state.mkdir()
    state.chmod(0o770)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(of_another, "belongs to another user", marks=root),
        pytest.param(runner_of_another, "has a runner of another user", marks=root),
        (link, "is a link"),
        (for_all, "may be written by others"),
        (for_a_group, "may be written by others"),
    ],
)
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_state_directory_that_others_can_change_is_refused(
    tmp_path: Path, make: Callable[[Path], None], why: str, slash: str
) -> None:
    state = tmp_path / "state"
    make(state)
    there = sorted(each.name for each in state.iterdir())
    done = bootstrapped(f"{state}{slash}")
    assert (done.returncode, f"ssh.state_dir {state}{slash} {why}" in done.stderr) == (77, True), done.stderr
    assert "READY" not in done.stdout
    assert not (tmp_path / "obeyed").exists()
    assert {*there, "runs"} >= {each.name for each in state.iterdir()}


def test_a_state_directory_of_its_own_is_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = bootstrapped(tmp_path / "state")
        assert "READY" in done.stdout, done.stderr
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700

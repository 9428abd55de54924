"""The groups of a build's processes are killed at one moment, so that none escapes by a fork; a group of others is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from nodepool_ocb_builder.sandbox import leftovers

Until = Callable[..., None]


@pytest.fixture
def leader(until: Until) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The leader of a group, and a child of it."""
    started = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert started.stdout is not None
    child = int(started.stdout.readline())
    yield started, child
    if started.poll() is None:
        os.killpg(started.pid, 9)
        started.wait(10.0)
    started.stdout.close()
    until(lambda: not alive(child))


def alive(pid: int) -> bool:
    return any(pid == each for each, _ in leftovers._stats())


def test_a_member_that_no_list_has_is_killed_with_its_group(
    leader: tuple[subprocess.Popen[str], int], until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, child = leader
    listed = leftovers._stats
    monkeypatch.setattr(leftovers, "_stats", lambda: ((pid, fields) for pid, fields in listed() if pid != child))
    leftovers._kill_groups([started.pid], [])
    monkeypatch.undo()
    until(lambda: not alive(child))
    assert started.wait(10.0) == -9


@pytest.mark.parametrize("spared", [True, False], ids=["spared", "with a stranger"])
def test_a_group_with_a_stranger_or_a_spared_process_is_not_killed(
    leader: tuple[subprocess.Popen[str], int], spared: bool
) -> None:
    started, child = leader
    with subprocess.Popen(["sleep", "60"], process_group=started.pid) as stranger:
        try:
            leftovers._kill_groups([started.pid, *([stranger.pid] if spared else [])], [child] if spared else [])
            assert alive(child)
            assert stranger.poll() is None
            assert started.poll() is None
        finally:
            stranger.kill()

"""Which files with outputs of runs stay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import AnnealerSettings
from nodepool_ocb_annealer.runs import logs

NOW = 1_000_000.0


def settings(folder: Path, **fields: Any) -> AnnealerSettings:
    generous = AnnealerSettings(log_dir=str(folder), log_keep=100, log_keep_seconds=1e9, log_total_bytes=1 << 30)
    return replace(generous, **fields)


def write(folder: Path, node: str, name: str, size: int = 10, age: float = 0.0) -> Path:
    file = folder / node / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    os.utime(file, (NOW - age, NOW - age))
    return file


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def test_so_many_of_each_noderole_stay_the_newest_by_their_epochs(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, "n1", f"a-{number:010}-c0ffee.log", age=number)  # the files of older epochs are the newer ones
        write(tmp_path, "n1", f"a-b-{number:010}-c0ffee.log")
    write(tmp_path, "n2", "a-0000000000-c0ffee.log")
    assert logs.tidy(settings(tmp_path, log_keep=2), (), NOW) == 6
    kept = [f"{role}-000000000{number}-c0ffee.log" for role in ("a", "a-b") for number in (3, 4)]
    assert names(tmp_path) == sorted([*kept, "a-0000000000-c0ffee.log"])


def test_what_is_too_old_goes_and_its_empty_folder_too(tmp_path: Path) -> None:
    write(tmp_path, "n1", "a-0000000001-c0ffee.log", age=101)
    write(tmp_path, "n2", "a-0000000001-c0ffee.log", age=99)
    logs.tidy(settings(tmp_path, log_keep_seconds=100.0), (), NOW)
    assert [folder.name for folder in tmp_path.iterdir()] == ["n2"]


def test_of_all_the_newest_stay_that_fit(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path, f"n{number}", "a-0000000001-c0ffee.log", size=100, age=number)
    logs.tidy(settings(tmp_path, log_total_bytes=350), (), NOW)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["n0", "n1", "n2"]


@pytest.mark.parametrize("bound", [{"log_keep": 1}, {"log_keep_seconds": 60.0}, {"log_total_bytes": 1}])
def test_logs_of_active_runs_stay(tmp_path: Path, bound: dict[str, Any]) -> None:
    write(tmp_path, "n1", "a-0000000001-c0ffee.log", age=1e6)
    write(tmp_path, "n1", "a-0000000002-c0ffee.log", age=1e6)
    logs.tidy(settings(tmp_path, **bound), {"0000000001-c0ffee"}, NOW)
    assert "a-0000000001-c0ffee.log" in names(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", "a.log", "a-1-c0ffee.log", "a-0000000001-c0ffee.log.gz"])
def test_files_that_are_not_ours_stay(tmp_path: Path, name: str) -> None:
    write(tmp_path, "n1", name, age=1e9)
    write(tmp_path, ".", "a-0000000001-c0ffee.log", age=1e9)
    (tmp_path / "link").symlink_to(tmp_path / "n1")
    logs.tidy(settings(tmp_path, log_keep_seconds=60.0, log_total_bytes=65536), (), NOW)
    assert len(names(tmp_path)) == 2


def test_a_folder_that_is_not_there_is_nothing_to_tidy(tmp_path: Path) -> None:
    assert logs.tidy(settings(tmp_path / "none"), (), NOW) == 0
    assert logs.tidy(AnnealerSettings(log_dir=None), (), NOW) == 0

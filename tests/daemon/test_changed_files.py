"""A changed configuration is noticed once, and not while it is written."""

from __future__ import annotations

import os
from pathlib import Path

from nodepool_ocb.daemon.changed import ChangedFiles


def test_a_changed_file_is_told_once_when_it_rests(tmp_path: Path) -> None:
    file, gone = tmp_path / "a.yaml", tmp_path / "gone.yaml"
    file.write_text("a: 1")
    changed = ChangedFiles([file, gone], look_seconds=0.0)
    assert not changed.look()
    for text in ("a: ", "a: 2"):  # somebody writes it, in pieces
        file.write_text(text)
        os.utime(file, ns=(len(text), len(text)))
        assert not changed.look()
    assert changed.look()
    assert changed.noticed
    assert not changed.look()
    file.unlink()
    assert [changed.look() for _ in range(3)] == [False, True, False]


def test_what_was_read_meanwhile_is_not_told(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    changed = ChangedFiles([file], look_seconds=0.0)
    file.write_text("a: 1")
    assert not changed.look()
    changed.taken([file])
    assert not changed.look()


def test_looks_have_a_distance(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    changed = ChangedFiles([file], look_seconds=3600.0)
    file.write_text("a: 1")
    assert not any(changed.look() for _ in range(3))

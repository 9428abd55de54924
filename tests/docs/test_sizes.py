"""Modules and folders that tools/check warns of or refuses for their size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool; it is no part of any package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import sizes

    yield sizes
    del sys.modules["sizes"]


def write(root: Path, name: str, lines: int) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n" * lines)


def fill(root: Path, folder: str, count: int) -> None:
    for number in range(count):
        write(root, f"{folder}/m{number}.py", 1)
    write(root, f"{folder}/__init__.py", 1)


@pytest.mark.parametrize(
    ("name", "warned", "limit"), [("nodepool_ocb/engine/long.py", 401, 600), ("tests/engine/test_long.py", 601, 1000)]
)
def test_a_long_module_is_warned_of_and_above_the_limit_refused(
    tmp_path: Path, sizes: Any, name: str, warned: int, limit: int
) -> None:
    write(tmp_path, name, warned - 1)
    assert list(sizes.findings(tmp_path)) == []
    for lines, refused in ((warned, False), (limit, False), (limit + 1, True)):
        write(tmp_path, name, lines)
        (found,) = sizes.findings(tmp_path)
        assert found.text.startswith(f"{name} has {lines} lines")
        assert found.refused is refused


@pytest.mark.parametrize(("folder", "most", "limit"), [("nodepool_ocb/engine", 16, 24), ("tests/engine", 24, 48)])
def test_a_full_folder_is_warned_of_and_above_the_limit_refused(
    tmp_path: Path, sizes: Any, folder: str, most: int, limit: int
) -> None:
    write(tmp_path, f"{folder}/world/one.py", 1)
    fill(tmp_path, folder, most)
    assert list(sizes.findings(tmp_path)) == []
    for count, refused in ((most + 1, False), (limit, False), (limit + 1, True)):
        fill(tmp_path, folder, count)
        (found,) = sizes.findings(tmp_path)
        assert found.text.startswith(f"{folder} has {count} modules")
        assert found.refused is refused

"""What tools/check says of modules and folders that are too large."""

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
    file = root / "nodepool_ocb" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n" * lines)


def test_a_module_that_is_too_long_is_refused(tmp_path: Path, sizes: Any) -> None:
    write(tmp_path, "engine/long.py", 401)
    write(tmp_path, "engine/short.py", 400)
    assert list(sizes.faults(tmp_path)) == ["nodepool_ocb/engine/long.py has 401 lines, and may have 400: divide it"]


def test_a_folder_of_too_many_modules_is_refused(tmp_path: Path, sizes: Any) -> None:
    for number in range(16):
        write(tmp_path, f"engine/m{number}.py", 1)
    write(tmp_path, "engine/__init__.py", 1)
    write(tmp_path, "engine/world/one.py", 1)
    assert list(sizes.faults(tmp_path)) == []
    write(tmp_path, "engine/m16.py", 1)
    assert list(sizes.faults(tmp_path)) == ["nodepool_ocb/engine has 17 modules, and may have 16: divide it"]

"""Each class of the product has a name of its own: tools/classes.py names those that share one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tool; it is no part of any package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import classes

    yield classes
    del sys.modules["classes"]


def written(root: Path, **files: str) -> Path:
    """A tree with one class of this name in each file; ``__`` in the name of a file stands for a slash."""
    for file, name in files.items():
        path = root / f"{file.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import ast\n\n\nclass {name}:\n    pass\n")
    return root


@pytest.mark.long
def test_the_classes_of_the_product_have_names_of_their_own(classes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places = classes.places(ROOT)
    monkeypatch.setattr(classes, "places", lambda _: places)
    assert list(classes.faults(ROOT)) == []
    assert len(places) > 900


def test_a_second_class_of_one_name_is_named_with_both_places(classes: Any, tmp_path: Path) -> None:
    root = written(tmp_path, nodepool_ocb__engine__plan="Plan", annealer__plan="Plan", builder__plan="BuildPlan")
    assert list(classes.faults(root)) == [
        "nodepool_ocb/engine/plan.py:4 and annealer/plan.py:4 have one name, Plan; rename all but one after their subjects"
    ]


@pytest.mark.parametrize("folder", ["nodepool_ocb", "annealer", "builder", "launcher"])
def test_each_part_of_the_product_counts(classes: Any, tmp_path: Path, folder: str) -> None:
    root = written(tmp_path, **{"nodepool_ocb__engine__plan": "Plan", f"{folder}__other": "Plan"})
    assert len(list(classes.faults(root))) == 1


def test_private_and_inner_classes_count(classes: Any, tmp_path: Path) -> None:
    root = written(tmp_path, nodepool_ocb__a="_Reader", nodepool_ocb__b="Reader")
    (root / "builder").mkdir()
    (root / "builder/inner.py").write_text("def made():\n    class _Reader:\n        class Reader: ...\n")
    assert [each.partition(" have ")[0] for each in classes.faults(root)] == [
        "nodepool_ocb/b.py:4 and builder/inner.py:3",
        "nodepool_ocb/a.py:4 and builder/inner.py:2",
    ]


def test_a_double_for_tests_may_have_the_name_of_its_class(classes: Any, tmp_path: Path) -> None:
    assert list(classes.faults(written(tmp_path, nodepool_ocb__testing__plan="Plan", nodepool_ocb__plan="Plan"))) == []

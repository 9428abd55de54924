"""Which files below a directory belong to which release."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.cli.tasks.trees import trees
from nodepool_ocb.errors import Invalid, NotFound


def put(root: Path, *files: str, text: str = "[]\n") -> None:
    for each in files:
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(text)


def found(root: Path) -> dict[str, list[str]]:
    return {tree.release: [str(folder.relative_to(root)) for folder in tree.folders] for tree in trees(root)}


def test_the_first_directory_is_the_release(tmp_path: Path) -> None:
    put(tmp_path, "2014.2-6.1/modules/osnailyfacter/tasks.yaml", "9.0/a/tasks.yaml", "9.0/b/c/tasks.yaml", "none/x.pp")
    assert found(tmp_path) == {"2014.2-6.1": ["2014.2-6.1"], "9.0": ["9.0"]}


@pytest.mark.parametrize(("name", "text"), [("release", "liberty-9.0\n"), ("release.yaml", "release: liberty-9.0\n")])
def test_a_file_at_the_root_of_a_tree_names_its_release(tmp_path: Path, name: str, text: str) -> None:
    put(tmp_path, "modules/deep/tasks.yaml", "9.1/tasks.yaml")
    put(tmp_path, f"modules/{name}", text=text)
    assert found(tmp_path) == {"9.1": ["9.1"], "liberty-9.0": ["modules"]}
    put(tmp_path, name, text="whole\n" if name == "release" else "release: whole\n")
    assert found(tmp_path) == {"whole": ["."]}


def test_trees_of_one_release_are_one_list(tmp_path: Path) -> None:
    put(tmp_path, "modules/tasks.yaml", "9.0/tasks.yaml")
    put(tmp_path, "modules/release.yaml", text="release: '9.0'\n")
    assert found(tmp_path) == {"9.0": ["9.0", "modules"]}


def test_what_belongs_to_no_release_or_names_none_is_refused_whole(tmp_path: Path) -> None:
    put(tmp_path, "tasks.yaml", "9.0/tasks.yaml", "a/tasks.yaml")
    put(tmp_path, "a/release", text="two words\n")
    with pytest.raises(Invalid) as refused:
        trees(tmp_path)
    assert [problem.partition(": ")[2].partition(";")[0] for problem in refused.value.problems] == [
        "belongs to no release",
        "must name a release: one name",
    ]


def test_a_release_is_not_read_as_a_number(tmp_path: Path) -> None:
    put(tmp_path, "a/tasks.yaml")
    put(tmp_path, "a/release.yaml", text="release: 9.10\n")
    with pytest.raises(Invalid, match="a number in quotes"):
        trees(tmp_path)


def test_a_directory_without_a_list_is_told(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotFound):
            trees(root)

"""What is wrong in a nodepool.yaml is told whole: each fault once, with its line, its place and the next step."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool


def problems(folder: Path, text: str, secure: str | None = None) -> list[str]:
    """The faults of a text, as ``LINE: PATH: sentence``; those of a secure file begin with its name."""
    path, above = folder / "nodepool.yaml", folder / "secure.yaml"
    path.write_text(text)
    if secure is not None:
        above.write_text(secure)
    with pytest.raises(Invalid) as caught:
        nodepool.load(path, above if secure is not None else None, environ={"NODEPOOL_WORD": "word"})
    return [problem.replace(f"{path}:", "").replace(f"{folder}/", "") for problem in caught.value.problems]


def story(name: str) -> list[tuple[str, str]]:
    """The cases of a file: a document, a line of dashes, what is told about it; an empty line between two."""
    cases = (Path(__file__).parent / name).read_text().strip("\n").split("\n\n")
    return [(text + "\n", wanted) for text, _, wanted in (case.partition("\n----\n") for case in cases)]


@pytest.mark.parametrize(("text", "wanted"), story("nodepool_faults.txt"))
def test_a_fault_is_told_with_its_line_and_what_to_do(tmp_path: Path, text: str, wanted: str) -> None:
    assert problems(tmp_path, text) == [wanted]


@pytest.mark.parametrize(("secure", "wanted"), story("nodepool_secure_faults.txt"))
def test_a_fault_of_the_secure_file_names_that_file(tmp_path: Path, secure: str, wanted: str) -> None:
    text = "diskimages: [{name: base, abstract: true}, {name: i}]\nproviders: [{name: p, driver: local}]\n"
    assert problems(tmp_path, text, secure) == [wanted]


def test_all_faults_are_told_in_order(tmp_path: Path) -> None:
    text = """\
images_dir: /a
providers:
  - name: p
    cloud: c
    diskimages:
      - name: gone
diskimages:
  - name: i
    pause: 5
    parent: j
    elements: {}
  - name: j
    parent: i
    env-vars: {A: '%(NODEPOOL_GONE)'}
"""
    found = problems(tmp_path, text)
    assert [problem.partition(":")[0] for problem in found] == ["1", "6", "9", "10", "11", "14"]


def test_what_an_alias_repeats_is_told_once_where_it_is_written(tmp_path: Path) -> None:
    text = """\
diskimages: [{name: i}]
providers:
  - name: p
    cloud: c
    diskimages: &all
      - name: j
      - name: i
        meta: &meta {a: [b]}
        config_drive: true
  - {name: q, cloud: c, diskimages: *all}
  - {name: r, cloud: c, diskimages: [{name: i, meta: *meta}]}
"""
    assert problems(tmp_path, text) == [
        "6: providers[p].diskimages[j].name: diskimage j does not exist; add it to `diskimages`",
        "8: providers[p].diskimages[i].meta.a: must be text or a number or true or false, and is a list",
        "9: providers[p].diskimages[i].config_drive: unknown key `config_drive`; did you mean `config-drive`?",
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"gone\.yaml: cannot be read: No such file"):
        nodepool.load(tmp_path / "gone.yaml", environ=os.environ)


# -- whatever is written --

WHOLE: dict[str, Any] = {
    "elements-dir": "/e",
    "zookeeper-servers": [{"host": "a", "chroot": "/x"}],
    "zookeeper-tls": {"ca": "/ca"},
    "diskimages": [
        {"name": "base", "abstract": True, "elements": ["vm"], "env-vars": {"A": 1}, "formats": ["raw"]},
        {"name": "i", "parent": "base", "keep-formats": ["raw"], "options": {}, "metadata": {"m": 1}},
    ],
    "labels": [{"name": "l"}],
    "providers": [
        {
            "name": "p",
            "cloud": "c",
            "diskimages": [{"name": "i", "meta": {"a": 1}}],
            "pools": [{"name": "m", "labels": [{"name": "l", "diskimage": "i", "min-ram": 1}]}],
        },
        {"name": "q", "driver": "local", "diskimages": [{"name": "i"}]},
    ],
}
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.just(1.5), st.sampled_from(["", "i", "base", "%(NODEPOOL_X)", "yes"]),
    st.just([]), st.just({}), st.just([{}]), st.just([{"name": []}]), st.just({"name": "i"}), st.just([["i"]]),
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every mapping and list, with each of its keys."""
    found = []
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 100), ANYTHING), min_size=1, max_size=3))
def test_any_document_loads_or_is_told_what_is_wrong(tmp_path: Path, changes: list[tuple[int, Any]]) -> None:
    value = copy.deepcopy(WHOLE)
    for number, anything in changes:
        found = places(value)
        if found:
            holder, key = found[number % len(found)]
            holder[key] = copy.deepcopy(anything)
    path = tmp_path / "nodepool.yaml"
    path.write_text(yaml.safe_dump(value))
    problems: tuple[str, ...] = (f"{path}:",)
    try:
        nodepool.load(path, environ={})
    except Invalid as wrong:
        problems = wrong.problems
    assert problems
    assert all(problem.startswith(f"{path}:") for problem in problems)

"""Diskimages and their parents."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.images.diskimages import Diskimage, laid_over, made, merged, problems

NAMES = ("a", "b", "c", "d", "e")
FEW = st.sampled_from(["vm", "ntp", "epel", "growroot"])
SOME_KEYS = st.fixed_dictionaries(
    {},
    optional={
        "elements": st.lists(FEW, max_size=3) | st.lists(FEW, max_size=3).map(" ".join),
        "env-vars": st.dictionaries(st.sampled_from("XYZ"), st.sampled_from(["0", "1", ""]), max_size=3),
        "options": st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), max_size=3),
        "formats": st.lists(st.sampled_from(["raw", "qcow2", "vhd"]), max_size=2),
        "pause": st.booleans(),
        "abstract": st.booleans(),
        "release": st.sampled_from(["", "8", 9]),
        "rebuild-age": st.integers(1, 3),
        "metadata": st.dictionaries(st.sampled_from("mn"), st.sampled_from(["0", "1"]), max_size=2),
    },
)


@st.composite
def families(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Diskimages of which each has one of those before it as its parent, or none."""
    family: list[dict[str, Any]] = []
    for index, name in enumerate(draw(st.permutations(NAMES))):
        keys = {"name": name, **draw(SOME_KEYS)}
        parent = draw(st.sampled_from([None, *(each["name"] for each in family)])) if index else None
        family.append(keys if parent is None else {**keys, "parent": parent})
    return family


def by_name(family: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {keys["name"]: keys for keys in family}


@given(families(), st.randoms())
def test_the_order_of_definitions_does_not_matter(family: list[dict[str, Any]], chance: Any) -> None:
    shuffled = list(family)
    chance.shuffle(shuffled)
    first, second = merged(by_name(family)), merged(by_name(shuffled))
    assert first == second
    assert {name: made(name, keys) for name, keys in first.items()} == {
        name: made(name, keys) for name, keys in second.items()
    }


def below(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    return laid_over({}, keys)


@given(SOME_KEYS, SOME_KEYS, SOME_KEYS)
def test_generations_merge_from_either_end_to_the_same(a: Any, b: Any, c: Any) -> None:
    assert laid_over(laid_over(below(a), b), c) == laid_over(below(a), laid_over(below(b), c))


@given(SOME_KEYS)
def test_what_says_nothing_changes_nothing(keys: Any) -> None:
    assert laid_over(below(keys), {}) == below(keys)
    assert laid_over({}, below(keys)) == below(keys)


def image(*generations: dict[str, Any]) -> Diskimage:
    """The youngest of a line of descent."""
    family = {
        str(index): {"name": str(index), "abstract": True, **({"parent": str(index - 1)} if index else {}), **keys}
        for index, keys in enumerate(generations)
    }
    family[str(len(generations) - 1)]["abstract"] = False
    (name, keys) = merged(family).popitem()
    return made(name, keys)


def test_elements_follow_the_parents_and_variables_are_laid_over_them() -> None:
    youngest = image(
        {"elements": "vm growroot", "env-vars": {"A": "0", "B": "0"}},
        {"elements": ["ntp"]},
        {"elements": ["epel", "cache devstack"], "env-vars": {"B": 1, "C": "2"}},
    )
    assert youngest.elements == ("vm", "growroot", "ntp", "epel", "cache", "devstack")
    assert youngest.env_vars == {"A": "0", "B": "1", "C": "2"}


def test_a_child_takes_back_what_its_parent_says() -> None:
    parent = {"pause": True, "delete-after-upload": True, "formats": ["raw"], "release": "8", "metadata": {"a": "1"}}
    assert image(parent, {}).pause
    child = image(parent, {"pause": False, "delete-after-upload": False, "formats": [], "release": "", "metadata": {}})
    assert (child.pause, child.keep_formats, child.formats) == (False, True, ("qcow2",))
    assert (child.release, child.metadata) == (None, {})


def test_a_child_keeps_what_it_says_nothing_about() -> None:
    child = image({"metadata": {"a": "1"}, "keep": 5, "backend": "command"}, {"elements": ["vm"]}, {})
    assert (child.metadata, child.keep, child.backend, child.elements) == ({"a": "1"}, 5, "command", ("vm",))


def test_to_be_abstract_is_not_handed_down() -> None:
    family = {"base": {"name": "base", "abstract": True}, "child": {"name": "child", "parent": "base"}}
    assert list(merged(family)) == ["child"]


def test_files_that_stay_after_an_upload() -> None:
    assert image({}).keep_formats is True
    assert image({"keep-formats": ["qcow2"]}).keep_formats is True
    assert image({"delete-after-upload": True}).keep_formats == ()
    assert image({"delete-after-upload": True, "keep-formats": ["qcow2"]}).keep_formats == ("qcow2",)


def test_an_image_is_made_in_its_own_formats_and_those_that_are_taken() -> None:
    assert made("i", {"formats": ["tar", "raw"]}, ["vhd", "raw"]).formats == ("raw", "tar", "vhd")
    assert made("i", {}).formats == ("qcow2",)


def test_a_stub_is_what_nodepool_would_not_build() -> None:
    assert made("i", {"elements": []}).stub
    assert made("i", {"elements": ["vm"]}).stub, "nobody says in which format"
    assert not made("i", {}, ["qcow2"]).stub
    assert not made("i", {"formats": ["raw"]}).stub
    assert not made("i", {"backend": "mmdebstrap"}).stub


def test_a_long_line_of_descent_needs_no_recursion() -> None:
    assert image(*({"elements": ["vm"]} for _ in range(3000))).elements == ("vm",) * 3000


def test_each_knot_of_parents_is_told_once() -> None:
    family = {
        name: {"name": name, "parent": parent} for name, parent in zip("abcdefg", "bcaad" + "gf", strict=True)
    } | {"lost": {"name": "lost", "parent": "gone"}}
    found = [(finding.name, finding.key, finding.text) for finding in problems(family)]
    assert found == [
        ("lost", "parent", "diskimage gone does not exist; define it, or take the line away"),
        ("a", "parent", "is its own parent in the end: a -> b -> c -> a; take one of these parents away"),
        ("f", "parent", "is its own parent in the end: f -> g -> f; take one of these parents away"),
    ]


def test_a_line_of_more_than_a_hundred_generations_is_refused() -> None:
    line = {f"i{n}": {"name": f"i{n}", "parent": f"i{n - 1}"} if n else {"name": "i0"} for n in range(4000)}
    chosen = dict(Random(1).sample(sorted(line.items()), len(line)))
    (found,) = problems(chosen)
    assert (found.name, "at most 99" in found.text) == ("i100", True)
    assert not problems({name: keys for name, keys in chosen.items() if int(name[1:]) < 100})

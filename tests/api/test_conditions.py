"""The conditions of writes, from their headers: which request needs a version, and which branch it is compared with."""

from __future__ import annotations

import pytest

from nodepool_ocb.api import versions
from nodepool_ocb.errors import VersionLacking
from nodepool_ocb.operations.performer import Condition
from nodepool_ocb.operations.reads.versions import ANY

PLACE = "/ocb/nodes/n1"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The conditions that were made, in words."""
    found: list[tuple[str, ...]] = []

    def condition(*words: str) -> Condition:
        found.append(words)
        return lambda _: None

    monkeypatch.setattr(versions.stored, "absent", lambda places: condition("absent", *places))
    monkeypatch.setattr(versions.stored, "unchanged", lambda places, match: condition("unchanged", *places, *match))
    return found


@pytest.mark.parametrize(
    ("place", "match", "none_match", "creates", "conditions"),
    [
        pytest.param(PLACE, ("a1",), (), False, [("unchanged", PLACE, "a1")], id="a version"),
        pytest.param(PLACE, ("a1", "b2"), (), False, [("unchanged", PLACE, "a1", "b2")], id="one of two"),
        pytest.param(PLACE, (ANY, "a1"), (), False, [("unchanged", PLACE, ANY, "a1")], id="any, and it exists"),
        pytest.param(PLACE, (ANY,), (), False, [], id="the present state"),
        pytest.param(PLACE, (), (ANY,), True, [("absent", PLACE)], id="a create of a new one"),
        pytest.param(PLACE, (), (), True, [], id="a create"),
        pytest.param(PLACE, ("a1",), ("a1",), True, [], id="a create with a version"),
        pytest.param(None, (), (), False, [], id="no object"),
    ],
)
def test_the_condition_of_a_write_to_one_object(
    made: list[tuple[str, ...]],
    place: str | None,
    match: tuple[str, ...],
    none_match: tuple[str, ...],
    creates: bool,
    conditions: list[tuple[str, ...]],
) -> None:
    assert len(versions.conditions(place, match, none_match, creates=creates)) == len(conditions)
    assert made == conditions


def test_a_write_to_an_existing_object_without_a_version_is_refused() -> None:
    with pytest.raises(VersionLacking, match="needs If-Match"):
        versions.conditions(PLACE, (), (ANY,), creates=False)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\n", "a\0", "\ud800"])
@pytest.mark.parametrize("kind", sorted(versions.BRANCHES))
def test_a_name_that_no_object_can_have_has_no_branch(kind: str, name: str) -> None:
    assert versions.branch(kind, name) is None

"""Attributes stay what they are, whatever layers they pass."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine import attributes
from tests.fixtures.examples import examples

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["OK", "cafe", "1e3", "0x1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc/", max_size=2), inner, max_size=3),
    max_leaves=12,
)
BLOBS = st.dictionaries(st.text("abc", max_size=2), VALUES, max_size=4)


@examples(50, long=400)
@given(BLOBS, BLOBS)
def test_merging_changes_neither_side_and_the_later_wins(below: dict[str, Any], above: dict[str, Any]) -> None:
    before = copy.deepcopy((below, above))
    merged = attributes.merge(below, above)
    assert (below, above) == before
    assert attributes.merge(merged, above) == merged
    assert attributes.merge(below, {}) == below
    assert attributes.merge({}, above) == above


@examples(50, long=400)
@given(BLOBS, BLOBS)
def test_the_wall_is_what_came_back_beyond_what_was_sent(sent: dict[str, Any], extra: dict[str, Any]) -> None:
    returned = attributes.merge(sent, extra)
    wall = attributes.wall(sent, returned)
    assert attributes.merge(sent, wall) == returned
    assert attributes.wall(returned, returned) == {}


def test_a_wall_tells_true_from_one_and_text_from_numbers() -> None:
    assert attributes.wall({"a": 1, "b": "1"}, {"a": True, "b": 1}) == {"a": True, "b": 1}

"""What is made of a view: keys in the order of its fields, a record's in its place."""

from __future__ import annotations

import msgspec

from nodepool_ocb.model.images import Pause
from nodepool_ocb.model.records import State
from nodepool_ocb.views.view import View, Whole, plain


class Line(View, frozen=True):
    """What the tests show."""

    name: str
    record: Pause
    reason: str | None
    state: State
    parts: tuple[Whole[Pause], ...] = ()
    more: int | msgspec.UnsetType = msgspec.UNSET


def test_the_fields_of_a_record_stand_in_its_place_and_a_later_field_replaces_one() -> None:
    made = plain(Line("a", Pause(by="root", reason="old", unknown={"later": [1]}), "new", State.ACTIVE))
    assert list(made.items()) == [
        ("name", "a"),
        ("later", [1]),
        ("by", "root"),
        ("reason", "new"),
        ("at", 0.0),
        ("until", None),
        ("state", "ACTIVE"),
        ("parts", []),
    ]


def test_what_is_unset_is_left_out_and_views_inside_are_made_plain() -> None:
    made = plain(Line("a", Pause(), None, State.TODO, (Whole(Pause(by="x")),), 3))
    assert made["parts"] == [{"by": "x", "reason": None, "at": 0.0, "until": None}]
    assert made["more"] == 3
    assert "more" not in plain(Line("a", Pause(), None, State.TODO))

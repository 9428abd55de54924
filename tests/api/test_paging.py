"""Pages of lists, without a server: a row that stays during all requests is on one page."""

from __future__ import annotations

import random

import msgspec
import pytest

from nodepool_ocb.api.paging import PageOptions, chosen, page
from nodepool_ocb.errors import Invalid
from nodepool_ocb.views.view import View


class Lamp(View, frozen=True, kw_only=True):
    name: str
    colour: str = "red"


class LampList(msgspec.Struct, frozen=True):
    rows: list[Lamp]
    lit: bool


KEY = ("name",)


def lamps(names: object) -> list[Lamp]:
    return [Lamp(name=name) for name in names]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
def test_a_row_that_stays_is_on_one_page_while_others_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    stay = {f"lamp-{number}" for number in chance.sample(range(6000), 2000)}
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(1000):
        beside = {f"lamp-{number}" for number in chance.sample(range(6000), 500)}
        names = [*stay, *(beside - stay)]
        chance.shuffle(names)
        found = page(lamps(names), KEY, PageOptions(limit=chance.randrange(1, 200), cursor=cursor))
        seen += [row.name for row in found.answer]
        cursor = found.next
        if cursor is None:
            break
    assert cursor is None
    assert len(seen) == len({*seen})
    assert stay <= {*seen}


def test_the_last_page_has_no_next_and_no_empty_page_follows() -> None:
    first = page(lamps("abcd"), KEY, PageOptions(limit=2))
    last = page(lamps("abcd"), KEY, PageOptions(limit=2, cursor=first.next))
    assert [row.name for row in (*first.answer, *last.answer)] == list("abcd")
    assert last.next is None


def test_the_rows_of_a_document_are_paged_and_the_rest_stays() -> None:
    found = page(LampList(rows=lamps("ba"), lit=True), KEY, PageOptions(limit=1))
    assert found.answer == LampList(rows=lamps("a"), lit=True)


def test_names_of_two_parts_are_in_the_order_of_both() -> None:
    rows = [Lamp(name="b", colour="red"), Lamp(name="a", colour="red"), Lamp(name="b", colour="blue")]
    first = page(rows, ("name", "colour"), PageOptions(limit=2))
    assert [(row.name, row.colour) for row in first.answer] == [("a", "red"), ("b", "blue")]
    (last,) = page(rows, ("name", "colour"), PageOptions(cursor=first.next)).answer
    assert (last.name, last.colour) == ("b", "red")


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "W10", "é", "WyJhIiwiYiJd", "[" * 9000])
def test_a_text_that_is_no_cursor_of_the_list_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="is not of this list; take `next`"):
        page(lamps("a"), KEY, PageOptions(cursor=cursor))


def test_fields_are_chosen_and_one_that_no_row_has_is_refused() -> None:
    rows = lamps("a")
    assert chosen(rows, "colour") == [{"colour": "red"}]
    assert chosen(LampList(rows=rows, lit=True), " name , colour") == {
        "rows": [{"name": "a", "colour": "red"}], "lit": True
    }  # fmt: skip
    assert chosen([], "colour") == []
    with pytest.raises(Invalid, match="no field 'size'; it has: colour, name"):
        chosen(rows, "size")

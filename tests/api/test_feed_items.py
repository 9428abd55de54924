"""Which events a stream shows, and in which form: its filter, the limits of its token, and the place behind an event."""

from __future__ import annotations

from typing import Any, Final

import pytest

from nodepool_ocb.api.feed.cursor import EventCursor, parse
from nodepool_ocb.api.feed.items import ENTRY, EntryItem, EventFilter, SelectedNames, entry_item, shown_change
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.journal import Effect, Entry, FieldChange
from nodepool_ocb.model.records import Node
from nodepool_ocb.views.history.entries import EntryRow
from nodepool_ocb.views.history.recordchanges import RecordChange

N1: Final = "n1.example.com"


def change(**fields: Any) -> RecordChange:
    """A node of lab."""
    known = {"kind": "node", "name": N1, "zxid": 7, "deployment": "lab", "node": N1, "state": "dead", "was": None}
    return RecordChange(**{**known, "record": Node(deployment="lab"), **fields})


def selected(now: set[str], before: set[str]) -> SelectedNames:
    made = SelectedNames()
    made.look(frozenset(before))
    made.look(frozenset(now))
    return made


@pytest.mark.parametrize(
    ("filter", "fields", "shown"),
    [
        pytest.param(EventFilter(), {}, "data", id="all"),
        pytest.param(EventFilter(kinds=frozenset({"node"})), {}, "data", id="its kind"),
        pytest.param(EventFilter(kinds=frozenset({"role"})), {}, None, id="another kind"),
        pytest.param(EventFilter(nodes=frozenset({N1})), {}, "data", id="its node"),
        pytest.param(EventFilter(nodes=frozenset({"n2"})), {}, None, id="another node"),
        pytest.param(EventFilter(deployments=frozenset({"lab"})), {}, "data", id="its deployment"),
        pytest.param(EventFilter(deployments=frozenset({"web"})), {}, None, id="another deployment"),
        pytest.param(EventFilter(deployments=frozenset({"web"})), {"former": "web"}, "gone", id="it left"),
        pytest.param(EventFilter(within=frozenset({"lab"})), {}, "data", id="within the limits"),
        pytest.param(EventFilter(within=frozenset({"web"})), {}, None, id="outside the limits"),
        pytest.param(EventFilter(within=frozenset({"web"})), {"former": "web"}, "gone", id="it left the limits"),
        pytest.param(EventFilter(within=frozenset({"web"})), {"deployment": None}, None, id="of no deployment"),
        pytest.param(
            EventFilter(within=frozenset({"lab"}), deployments=frozenset({"web"})), {}, None, id="asked for another"
        ),
        pytest.param(
            EventFilter(within=frozenset({"web"}), deployments=frozenset({"lab"})),
            {},
            None,
            id="asked beyond the limits",
        ),
        pytest.param(EventFilter(selected=selected({N1}, set())), {}, "data", id="selected"),
        pytest.param(EventFilter(selected=selected(set(), {N1})), {}, "gone", id="no longer selected"),
        pytest.param(EventFilter(selected=selected(set(), set())), {}, None, id="never selected"),
        pytest.param(
            EventFilter(selected=selected({N1}, set()), within=frozenset({"web"})), {}, None, id="selected elsewhere"
        ),
    ],
)
def test_a_change_is_shown_where_it_belongs_and_a_stream_that_it_left_is_told(
    filter: EventFilter, fields: dict[str, Any], shown: str | None
) -> None:
    made = shown_change(change(**fields))
    assert filter.of_change(made) == {None: None, "data": made.data, "gone": made.gone}[shown]


def test_the_form_of_a_record_that_is_gone_tells_its_name_alone_and_no_form_has_a_secret() -> None:
    made = shown_change(change(record=Node(deployment="lab", rack="r1", hints={"key": {"$secret": "env:DISK"}})))
    assert b'"rack":"r1"' in made.data
    assert b"env:DISK" not in made.data
    assert b"(secret)" in made.data
    assert b"lab" not in made.gone
    assert b"r1" not in made.gone
    assert b'"gone":true' in made.gone
    deleted = shown_change(change(record=None, zxid=0))
    assert deleted.data == deleted.gone


def entry(*places: str, subject: str = N1, pool: bool = False) -> EntryItem:
    """An entry about a node in each of these deployments; an empty one: it is about more that belongs to none."""
    effects = tuple(Effect(change="change", kind="node", name=subject, deployment=place or None) for place in places)
    record = Entry(at=1.0, login="ann", host="desk", verb="node set", subjects=(subject,), changes=effects)
    return entry_item(EntryRow(number=5, record=record, pool=pool), 70, 900)


@pytest.mark.parametrize(
    ("filter", "item", "has"),
    [
        pytest.param(EventFilter(), entry("lab"), True, id="all"),
        pytest.param(EventFilter(kinds=frozenset({ENTRY})), entry("lab"), True, id="entries"),
        pytest.param(EventFilter(kinds=frozenset({"node"})), entry("lab"), False, id="another kind"),
        pytest.param(EventFilter(nodes=frozenset({N1})), entry("lab"), True, id="its node"),
        pytest.param(EventFilter(nodes=frozenset({"n2"})), entry("lab"), False, id="another node"),
        pytest.param(EventFilter(deployments=frozenset({"lab"})), entry("lab", "web"), True, id="its deployment"),
        pytest.param(EventFilter(deployments=frozenset({"web"})), entry("lab"), False, id="another deployment"),
        pytest.param(EventFilter(deployments=frozenset({"lab"})), entry(subject="lab"), True, id="about it"),
        pytest.param(EventFilter(within=frozenset({"lab"})), entry("lab"), True, id="within the limits"),
        pytest.param(EventFilter(within=frozenset({"lab"})), entry("lab", "web"), False, id="partly outside"),
        pytest.param(EventFilter(within=frozenset({"lab"})), entry("lab", ""), False, id="partly of no deployment"),
        pytest.param(EventFilter(within=frozenset({"lab"})), entry(), False, id="of no deployment"),
        pytest.param(EventFilter(selected=selected({N1}, {N1})), entry("lab"), False, id="a selector"),
    ],
)
def test_an_entry_is_shown_where_it_belongs_and_to_limited_tokens_if_all_of_it_is_within(
    filter: EventFilter, item: EntryItem, has: bool
) -> None:
    assert filter.has_entry(item) is has


def test_an_entry_has_the_size_of_its_text_and_no_secret() -> None:
    fields = (FieldChange(field="hints", old={"key": {"$secret": "env:DISK"}}, new="x" * 5000),)
    effect = Effect(change="change", kind="node", name=N1, fields=fields)
    record = Entry(at=1.0, login="ann", host="desk", verb="node set", subjects=(N1,), changes=(effect,))
    made = entry_item(EntryRow(number=5, record=record), 70, 900)
    assert b"env:DISK" not in made.data
    assert b"(secret)" in made.data
    assert made.size >= 5000


def test_the_numbers_of_both_journals_and_the_transactions_go_on_by_themselves() -> None:
    begun = EventCursor(entry=3, pool=4, zxid=70, entry_made=300, pool_made=400)
    person, launcher = begun.after_entry(5, 500, False), begun.after_entry(5, 500, True)
    assert (person.number(False), person.mark(False), person.number(True), person.mark(True)) == (5, 500, 4, 400)
    assert (launcher.number(False), launcher.mark(False), launcher.number(True), launcher.mark(True)) == (
        3,
        300,
        5,
        500,
    )
    assert [begun.after_changes(zxid).zxid for zxid in (69, 71)] == [70, 71]


@pytest.mark.parametrize(
    "given", ["", "x", "-2", "1-2-3-4", "1-2-3-4-5-6", "9" * 19, "1-2-3-4-" + "9" * 5000, "1\n", "٣"]
)
def test_an_id_that_no_stream_gave_is_refused(given: str) -> None:
    with pytest.raises(Invalid, match="no id of an event"):
        parse(given)

"""Records to bytes and back: nothing is lost, what is unknown is kept, what is wrong is named."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import USUAL, Claim, Deployment, Node, NodeRole, Record, Role, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode

T = TypeVar("T", bound=Record)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
later = st.dictionaries(texts.map(lambda key: "later_" + key), values, min_size=1, max_size=3)
noderoles = st.builds(
    NodeRole.of,
    state=st.sampled_from(State),
    since=st.floats(0, 2e9),
    parents=st.lists(texts, max_size=3).map(tuple),
    generation=st.integers(0, 2**31),
    run=st.none() | st.from_regex(r"[a-z0-9][a-z0-9.-]{0,40}", fullmatch=True),
    reason=st.none() | texts,
    refresh=st.booleans(),
    not_before=st.floats(0, 2e9),
    unknown=st.none() | later,
)
nodes = st.builds(
    Node,
    alive=st.booleans(),
    addresses=st.lists(texts, max_size=3).map(tuple),
    labels=st.dictionaries(texts, texts, max_size=3),
    hints=st.dictionaries(texts, values, max_size=3),
    unknown=st.none() | later,
)


def there(data: bytes) -> Znode:
    return Znode("/ocb/somewhere", data, 0, 1)


def back(record: T) -> T:
    return codec.decode(type(record), there(codec.encode(record)))


@given(noderoles | nodes)
def test_a_record_comes_back_as_it_was(record: NodeRole | Node) -> None:
    assert back(record) == record


@given(values)
def test_attributes_come_back_as_they_were(value: Any) -> None:
    assert codec.attributes(there(codec.encode({"a": value}))) == {"a": value}


@pytest.mark.parametrize("znode", [None, there(b"")])
def test_attributes_that_nobody_wrote_are_none(znode: Znode | None) -> None:
    assert codec.attributes(znode) == {}


def test_the_schema_comes_first_and_defaults_are_left_out() -> None:
    assert codec.encode(Deployment(by="root")) == b'{"schema":1,"by":"root"}'


def test_keys_of_a_later_version_are_kept_and_written_back() -> None:
    found = codec.decode(Deployment, there(b'{"schema":1,"by":"root","colour":{"red":1},"unknown":{"x":2}}'))
    assert found.unknown == {"colour": {"red": 1}, "unknown": {"x": 2}}
    again = msgspec.json.decode(codec.encode(msgspec.structs.replace(found, by="me")))
    assert again == {"schema": 1, "by": "me", "colour": {"red": 1}, "unknown": {"x": 2}}


def test_records_written_by_hand_are_read() -> None:
    record = codec.decode(NodeRole, there(b'{ "since": 5,\n "state": "ACTIVE" }'))
    assert record == NodeRole(state=State.ACTIVE, since=5.0)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"schema":2}', b'{"schema":1}', b'{"schema":1,"state":"GONE","since":1}',
     b'{"schema":1,"state":"TODO","since":NaN}', b"\xff\xfe", b'{"schema":1,"state":"\\ud800","since":1}',
     b"[" * 100_000, b'{"x":' * 5_000],
)  # fmt: skip
def test_an_invalid_noderole_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(Invalid, match="/ocb/somewhere: not a NodeRole of schema 1"):
        codec.decode(NodeRole, there(data))


@pytest.mark.parametrize("data", [b"{'single'}", b"[1]", b"null", b'{"a":' * 300 + b"1" + b"}" * 300, b"[" * 100_000])
def test_invalid_attributes_are_refused_with_their_path(data: bytes) -> None:
    with pytest.raises(Invalid, match="/ocb/somewhere: these are no attributes"):
        codec.attributes(there(data))


def test_values_that_json_cannot_express_are_refused() -> None:
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        codec.encode({"when": object()})


def test_rare_fields_of_a_noderole_stand_among_its_keys() -> None:
    record = NodeRole.of(state=State.ERROR, since=1.0, reason="no disk", attempt=3, serves=("dns",), by="an annealer")
    data = codec.encode(record)
    assert msgspec.json.decode(data) == {
        "schema": 1, "state": "ERROR", "since": 1.0, "by": "an annealer",
        "reason": "no disk", "attempt": 3, "serves": ["dns"],
    }  # fmt: skip
    mixed = (
        b'{"schema":1,"reason":"no disk","state":"ERROR","attempt":3,"since":1.0,"serves":["dns"],"by":"an annealer"}'
    )
    assert codec.decode(NodeRole, there(data)) == codec.decode(NodeRole, there(mixed)) == record


def test_a_key_called_rare_is_one_of_a_later_version() -> None:
    found = codec.decode(
        NodeRole, there(b'{"schema":1,"state":"TODO","since":1.0,"hooks":["on_todo"],"rare":{"rank":7}}')
    )
    assert (found.unknown, found.hooks, found.rank) == ({"rare": {"rank": 7}}, ("on_todo",), 0)
    written = msgspec.json.decode(codec.encode(found.amended(hooks=())))
    assert written == {"schema": 1, "state": "TODO", "since": 1.0, "rare": {"rank": 7}}


@pytest.mark.parametrize("key", [b'"hooks":["later"]', b'"attempt":-1', b'"check":7'])
def test_a_noderole_with_an_impossible_rare_field_is_refused(key: bytes) -> None:
    with pytest.raises(Invalid, match="/ocb/somewhere: not a NodeRole of schema 1"):
        codec.decode(NodeRole, there(b'{"schema":1,"state":"TODO","since":1.0,%b}' % key))


def test_noderoles_with_the_same_rare_fields_hold_them_once() -> None:
    first, second = (back(NodeRole.of(state=State.TODO, since=1.0, serves=("dns",))) for _ in "12")
    plain = back(NodeRole(state=State.TODO, since=1.0))
    assert first.rare is second.rare
    assert plain.rare is USUAL is first.amended(serves=()).rare


def test_names_that_thousands_share_are_held_once() -> None:
    first, second = (back(NodeRole(state=State.TODO, since=1.0, by="an annealer")) for _ in "12")
    assert first.by is second.by


def test_other_records_come_back_too() -> None:
    claim = Claim(annealer="a", noderole="os@n1", run="r", epoch=3, since=1.5)
    role = Role(barclamp="ntp", jig="script", flags=("implicit",), template={"ntp": {"servers": ["a"]}})
    assert (back(claim), back(role)) == (claim, role)

"""What numbers and names of records may be: held where a record is decoded, and before one is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from nodepool_ocb.documents.schema import schema_file
from nodepool_ocb.errors import Invalid, Spoiled
from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.model.images import Build, Upload
from nodepool_ocb.model.limits import BLOB_BYTES, RECORD_BYTES
from nodepool_ocb.model.records import (
    Claim,
    Deployment,
    DeploymentRole,
    Fence,
    Gate,
    Node,
    NodeRole,
    Record,
    Role,
    RolloutPointer,
    Run,
    State,
    Structure,
)
from nodepool_ocb.rollout.records import GroupRecord, NodesRecord, RolloutRecord
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.world.paths import WorldPath, misnamed

PATH = "/ocb/somewhere"


def numbers(of: inspect.Type, place: str) -> Iterator[tuple[str, Any]]:
    """Every number that a type holds, however deep, with where it stands."""
    match of:
        case inspect.IntType() | inspect.FloatType():
            yield place, of
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from numbers(field.type, f"{place}.{field.name}")
        case inspect.UnionType(types=types):
            for each in types:
                yield from numbers(each, place)
        case inspect.VarTupleType(item_type=item):
            yield from numbers(item, f"{place}[]")
        case inspect.DictType(value_type=value):
            yield from numbers(value, f"{place}{{}}")


def records(kind: type[Record] = Record) -> Iterator[type[Record]]:
    for each in kind.__subclasses__():
        yield each
        yield from records(each)


@pytest.mark.parametrize("kind", sorted(records(), key=lambda each: each.__name__), ids=lambda each: each.__name__)
def test_every_number_of_a_record_has_its_range(kind: type[Record]) -> None:
    unbounded = [
        place
        for place, number in numbers(inspect.type_info(kind), kind.__name__)
        if (number.ge is None and number.gt is None) or number.le is None
    ]
    assert not unbounded


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (NodeRole, {"state": "TODO", "since": -1}),
        (NodeRole, {"state": "TODO", "since": 1e300}),
        (NodeRole, {"state": "TODO", "since": 1, "generation": 10**16}),
        (NodeRole, {"state": "TODO", "since": 1, "attempt": -1}),
        (NodeRole, {"state": "TODO", "since": 1, "run": "../../x"}),
        (NodeRole, {"state": "TODO", "since": 1, "run": "two words"}),
        (NodeRole, {"state": "TODO", "since": 1, "run": ""}),
        (NodeRole, {"state": "TODO", "since": 1, "run": ".."}),
        (NodeRole, {"state": "TODO", "since": 1, "hooks": ["__init__"]}),
        (NodeRole, {"state": "TODO", "since": 1, "once": "perhaps"}),
        (Node, {"epoch_base": -5}),
        (Node, {"hooks": ["on_todo"]}),
        (Node, {"user": "root\n"}),
        (Node, {"user": ""}),
        (Node, {"user": "ro\x1b[1mot"}),
        (Node, {"user": "r" * 129}),
        (Role, {"barclamp": "b", "jig": "noop", "retries": 1001}),
        (Role, {"barclamp": "b", "jig": "noop", "backoff_seconds": -0.1}),
        (Role, {"barclamp": "b", "jig": "noop", "timeout_seconds": 0}),
        (Role, {"barclamp": "b", "jig": "noop", "timeout_seconds": 1e9}),
        (Role, {"barclamp": "b", "jig": "no op"}),
        (Role, {"barclamp": "b", "jig": "noop\n"}),
        (Claim, {"annealer": "a", "noderole": "r@n", "run": "a/b", "epoch": 1, "since": 1}),
        (Claim, {"annealer": "a", "noderole": "r@n", "run": "a", "epoch": -1, "since": 1}),
        (Structure, {"epoch": -1}),
        (RolloutPointer, {"newest": "one"}),
        (RolloutPointer, {"newest": "0000000001\n"}),
        (Deployment, {"since": "now"}),
        (Upload, {"state": "ready", "state_time": 1, "format": "raw", "attempt": -1}),
        (Build, {"builder": "b", "builder_id": "b", "filename": "f", "state": "ready", "state_time": -1}),
        (GroupRecord, {"group": {"name": "g"}, "phase": -1}),
        (GroupRecord, {"group": {"name": "g", "parallel_nodes": 0}}),
        (GroupRecord, {"group": {"name": "g", "success_criteria": {"percent_successful_nodes": 101}}}),
        (NodesRecord, {"nodes": {"n": {"passed": -1}}}),
        (RolloutRecord, {"strategy": {"parallel_groups": 0}, "groups": [], "nodes": 0, "inventory": ""}),
    ],
    ids=str,
)
def test_a_value_out_of_its_range_cannot_be_read(kind: type[Record], fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=PATH):
        codec.decode(kind, Znode(PATH, json.dumps({"schema": 1, **fields}).encode(), 0, 1))


def test_records_out_of_range_are_not_written() -> None:
    for record in (
        Role(barclamp="b", jig="noop", backoff_seconds=-5.0),
        NodeRole(state=State.TODO, since=1.0, generation=10**15 + 1),
        NodeRole.of(state=State.TODO, since=1.0, not_before=math.inf),
        Claim(annealer="a", noderole="n@n1", run="r", epoch=10**15 + 1, since=1.0),
        Run(annealer="a", started=1.0, ended=-1.0, outcome="failed", generation=1, epoch=1),
        Run(annealer="a", started=1.0, ended=1.0, outcome="failed", generation=1, epoch=1, exit_code=2**31),
        Node(since=math.inf),
    ):
        with pytest.raises(Invalid):
            codec.encode(record)


def test_documents_too_deep_to_be_read_are_not_written() -> None:
    deep: dict[str, Any] = {}
    for _ in range(codec.DEPTH):
        deep = {"a": deep}
    for value in (deep, Node(since=1.0, unknown={"later": deep})):
        with pytest.raises(Invalid, match="deeper than 200 levels"):
            codec.encode(value)
    assert codec.encode(deep["a"])


def test_what_is_larger_or_deeper_than_it_may_be_written_cannot_be_read() -> None:
    large = b'{"schema":1,"reason":"' + b"x" * RECORD_BYTES + b'"}'
    deep = b'{"schema":1,"later":' + b"[" * 201 + b"]" * 201 + b"}"
    for data in (large, deep):
        with pytest.raises(Invalid, match=PATH):
            codec.decode(Node, Znode(PATH, data, 0, 1))
    with pytest.raises(Spoiled, match="more than it may hold"):
        codec.attributes(Znode(PATH, b'{"a":"' + b"x" * BLOB_BYTES + b'"}', 0, 1))


def test_text_that_is_no_text_cannot_be_read() -> None:
    for data in (b'{"schema":1,"reason":"\\ud800"}', b'{"schema":1,"reason":"\xff"}', b"", b"null", b"[]", b"\0"):
        with pytest.raises(Invalid, match=PATH):
            codec.decode(Node, Znode(PATH, data, 0, 1))


def test_schemas_of_documents_have_the_ranges_of_the_records() -> None:
    role = schema_file("barclamp.json")["$defs"]["role"]["properties"]
    for number in ("timeout_seconds", "retries", "backoff_seconds"):
        of_record = dict(numbers(inspect.type_info(Role), "Role"))[f"Role.{number}"]
        schema = role[number]
        assert schema.get("minimum", schema.get("exclusiveMinimum")) == (
            of_record.ge if of_record.ge is not None else of_record.gt
        )
        assert schema["maximum"] == of_record.le


@pytest.mark.parametrize(
    "at",
    [
        WorldPath(NodeRole, "n.example.com", "a@b"),
        WorldPath(NodeRole, "n.example.com", "two words"),
        WorldPath(NodeRole, "n.example.com", "rôle"),
        WorldPath(NodeRole, "n.example.com", "role\n"),
        WorldPath(NodeRole, "N.example.com", "role"),
        WorldPath(Node, "-n.example.com"),
        WorldPath(Role, "Role"),
        WorldPath(Deployment, "a" * 64),
        WorldPath(RolloutPointer, "a b"),
        WorldPath(Fence, "n1 x"),
        WorldPath(Claim, "n1 x"),
        WorldPath(Gate, "a b", "role"),
        WorldPath(Gate, "a", "the role"),
        WorldPath(DeploymentRole, "a b", "role"),
        WorldPath(DeploymentRole, "a", "the role"),
        WorldPath(Node, ".".join(["n" * 60] * 5)),
    ],
    ids=str,
)
def test_an_invalid_name_is_no_path(at: WorldPath) -> None:
    assert misnamed(at)
    assert misnamed(WorldPath(NodeRole, "n1.example.com", "ntp-client_2.x")) is None


def test_an_order_whose_names_are_no_single_words_is_not_given() -> None:
    order = Order(
        node="n.example.com", record=Node(), role="base", definition=Role(barclamp="b", jig="script"), generation=1,
        epoch=1, run="0000000001-abc",
    )  # fmt: skip
    assert protocol.misnamed(order) is None
    for change in ({"role": "a b"}, {"role": "a\nend 9"}, {"node": "n\n"}, {"run": "../x"}):
        assert protocol.misnamed(msgspec.structs.replace(order, **change))


@pytest.mark.parametrize("code", [-9, 256, 4_294_967, 2**31 - 1])
def test_an_exit_code_that_an_earlier_version_took_from_a_machine_is_read(code: int) -> None:
    """A machine's answers have a range now; the records of before stay as they are."""
    record = msgspec.json.encode({"schema": 1, "annealer": "a", "started": 1.0, "ended": 2.0, "outcome": "failed",
                                  "generation": 1, "epoch": 1, "exit_code": code})  # fmt: skip
    assert msgspec.json.decode(record, type=Run).exit_code == code

"""Records of Nodepool and Zuul are read, ours have all their keys, and damaged ones are reported and left alone."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import msgspec
import pytest
from kazoo.client import KazooClient

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import (
    NodeRequest,
    PoolComponent,
    PoolNode,
    PoolNodeState,
    RequestState,
    launch_facts,
)
from nodepool_ocb.model.records import Record
from nodepool_ocb.store import quarantine
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import HeldLocks
from nodepool_ocb.store.pool.cache import PoolCache
from tests.store.pool.test_pool_cache import add_node, add_request, fresh

#: As Nodepool 11 and Zuul 14 write them.
REQUEST: Final[dict[str, Any]] = {
    "requestor_data": {"build_set_uuid": "b", "job_name": "unit", "span_info": None}, "node_types": ["jammy", "jammy"],
    "requestor": "zs01", "created_time": 1700000000.25, "provider": None, "state": "requested",
    "state_time": 1700000000.25, "relative_priority": 0, "event_id": None, "tenant_name": "main",
}  # fmt: skip
NODE: Final[dict[str, Any]] = {
    "state": "ready", "state_time": 1700000001.5, "cloud": None, "provider": "static", "pool": "main", "type": ["jammy"],
    "allocated_to": None, "az": None, "region": None, "public_ipv4": "192.0.2.1", "private_ipv4": None, "public_ipv6": "",
    "host_id": None, "interface_ip": "192.0.2.1", "connection_port": 22, "ssh_port": 22, "image_id": None,
    "launcher": "nl01-PoolWorker.static-main", "created_time": 1700000000.0, "external_id": None, "hostname": "n1",
    "comment": None, "user_data": None, "hold_job": None, "host_keys": ["ssh-ed25519 AAAA"], "username": "zuul",
    "connection_type": "ssh", "shell_type": None, "hold_expiration": None, "resources": None, "slot": 0,
    "attributes": None, "python_path": "auto", "tenant_name": None, "driver_data": None, "requestor": None,
    "node_properties": {},
}  # fmt: skip
COMPONENT: Final[dict[str, Any]] = {
    "hostname": "nl01", "id": "nl01-1", "kind": "pool", "model_api": 2, "name": "main", "paused": False, "priority": 100,
    "provider_name": "static", "state": "running", "supported_labels": ["jammy"], "version": "11.0.0",
}  # fmt: skip


def read(kind: type[Record], keys: dict[str, Any]) -> Any:
    return codec.decode(kind, Znode("/at", json.dumps(keys).encode(), 0, 0))


@pytest.mark.parametrize(("kind", "keys"), [(NodeRequest, REQUEST), (PoolNode, NODE), (PoolComponent, COMPONENT)])
def test_a_record_of_nodepool_is_read_and_written_again_with_all_its_keys(
    kind: type[Record], keys: dict[str, Any]
) -> None:
    more = {**keys, "later": {"a": 1}, "id": "0000000001"}
    written = json.loads(codec.encode(read(kind, more)))
    assert written.items() >= more.items()
    assert next(iter(written)) == "schema"


@pytest.mark.parametrize("kind", [NodeRequest, PoolNode, PoolComponent])
def test_a_record_of_ours_has_each_of_its_keys(kind: type[Record]) -> None:
    """Zuul's and Nodepool's clients read some keys without asking whether they exist."""
    required = {"state": "requested" if kind is NodeRequest else "init", "state_time": 1.0, "hostname": "h"}
    fields = {field: value for field, value in required.items() if field in kind.__struct_fields__}
    written = json.loads(codec.encode(msgspec.convert(fields, kind)))
    assert written.keys() == {"schema", *kind.__struct_fields__} - {"unknown"}
    of_nodepool = {NodeRequest: REQUEST, PoolNode: NODE, PoolComponent: COMPONENT}[kind]
    assert written.keys() >= of_nodepool.keys()


@pytest.mark.parametrize("kind", [NodeRequest, PoolNode, PoolComponent])
def test_null_stands_for_the_default_of_each_key_that_has_one(kind: type[Record]) -> None:
    keys = {NodeRequest: REQUEST, PoolNode: NODE, PoolComponent: COMPONENT}[kind]
    needed = {field.name for field in msgspec.structs.fields(kind) if field.required}
    nulls = {key: value if key in needed else None for key, value in keys.items()}
    assert read(kind, nulls) == read(kind, {key: keys[key] for key in needed})


@pytest.mark.parametrize("hold_expiration", [None, 3600, 3600.5, "3600", "soon"])
def test_the_time_of_a_hold_is_a_number_or_a_text(hold_expiration: Any) -> None:
    assert read(PoolNode, {**NODE, "hold_expiration": hold_expiration}).hold_expiration == hold_expiration


@pytest.mark.parametrize("value", ["jammy", ["jammy"], ["jammy", "focal"], [], None])
def test_the_label_of_a_node_is_a_text_or_a_list(value: Any) -> None:
    found = read(PoolNode, {**NODE, "type": value}).type
    assert found == (tuple(value) if isinstance(value, list) else value or ())


@pytest.mark.parametrize("value", [None, {}, {"key": 3}, {"key": "k", "attempt": "x"}, [1], "text", 5])
def test_data_of_another_driver_are_no_facts_of_our_launch(value: Any) -> None:
    assert launch_facts(read(PoolNode, {**NODE, "driver_data": value})) is None


WRONG: Final[list[tuple[type[Record], dict[str, Any]]]] = [
    (NodeRequest, {"state": "accepted"}),
    (NodeRequest, {"state": None}),
    (NodeRequest, {"state_time": "now"}),
    (NodeRequest, {"state_time": -1}),
    (NodeRequest, {"node_types": "jammy"}),
    (NodeRequest, {"node_types": [1]}),
    (NodeRequest, {"nodes": {"a": 1}}),
    (NodeRequest, {"relative_priority": "high"}),
    (NodeRequest, {"created_time": 1e300}),
    (PoolNode, {"state": "exploded"}),
    (PoolNode, {"state_time": None}),
    (PoolNode, {"type": 5}),
    (PoolNode, {"resources": [1]}),
    (PoolNode, {"slot": "first"}),
    (PoolNode, {"connection_port": -1}),
    (PoolNode, {"hold_expiration": [1]}),
    (PoolComponent, {"supported_labels": "jammy"}),
    (PoolComponent, {"paused": "yes"}),
    (PoolComponent, {"hostname": None}),
]


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_a_value_of_another_kind_is_refused(kind: type[Record], wrong: dict[str, Any]) -> None:
    keys = {NodeRequest: REQUEST, PoolNode: NODE, PoolComponent: COMPONENT}[kind]
    with pytest.raises(Invalid, match=f"/at: not a {kind.__name__}"):
        read(kind, {**keys, **wrong})


DAMAGES: Final[tuple[bytes, ...]] = (
    b"{oops", b"null", b"[]", b"5", b'"text"', b"{}", b"\0" * 100, bytes(range(256)), b"[" * 100_000, b'{"schema":2}',
    b'{"state":"ready","state_time":1,"type":["a"],"user_data":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"state":"ready","state_time":1,"comment":"\xff\xfe"}', b'{"state":"ready","state_time":1e999}',
    json.dumps({**NODE, "user_data": "x" * 600_000}).encode(),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_damaged_records_of_each_kind_are_reported_and_left_alone(
    zk_session: Session, kazoo: KazooClient, number: int
) -> None:
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    request, node = add_request(zk_session), add_node(zk_session)
    bad = [
        kazoo.create(f"{paths.REQUESTS}/100-", DAMAGES[number], sequence=True),
        kazoo.create(f"{paths.POOL_NODES}/", DAMAGES[number], sequence=True),
        kazoo.create(f"{paths.components('pool')}/h", DAMAGES[number], sequence=True, ephemeral=True),
    ]
    kazoo.create(f"{paths.POOL_NODES}/{node}/lock/x__lock__", DAMAGES[number], sequence=True, makepath=True)
    kazoo.create(f"{paths.REQUEST_LOCKS}/{request}/x__lock__", DAMAGES[number], sequence=True, makepath=True)
    view = fresh(cache, zk_session).view()
    assert (list(view.requests), list(view.nodes), list(view.members)) == ([request], [node], [])
    assert view.nodes[node].locked
    assert view.requests[request].locked_by
    assert sorted(cache.quarantined) == sorted(bad)
    assert set(bad) <= quarantine.unread(zk_session).keys()
    assert all(kazoo.exists(path) for path in bad)
    kazoo.delete(bad[1])
    kazoo.set(bad[0], json.dumps(REQUEST).encode())
    view = fresh(cache, zk_session).view()
    assert bad[0].rpartition("/")[2] in view.requests
    assert list(cache.quarantined) == bad[2:]


@pytest.mark.parametrize(
    "path",
    ["/nodepool/requests/lock", "/nodepool/requests/7", "/nodepool/requests/a-b-0000000001", "/nodepool/nodes/n1"],
)
def test_a_name_that_is_no_id_is_reported_and_left_alone(zk_session: Session, kazoo: KazooClient, path: str) -> None:
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    kazoo.create(path, json.dumps(REQUEST if "requests" in path else NODE).encode())
    view = fresh(cache, zk_session).view()
    assert not view.requests
    assert not view.nodes
    assert "its name is not" in cache.quarantined[path]
    assert quarantine.problem(zk_session.get(path)) is not None  # type: ignore[arg-type]


def test_records_with_values_by_chance_stop_no_cache(zk_session: Session, kazoo: KazooClient) -> None:
    chance = random.Random(7)
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    odd = [None, True, 5, -1, 1e18, "text", "\x1b[2J", "", [], ["a", None], {}, {"a": [{}]}, "ready", "0" * 10]
    for _ in range(150):
        for keys, folder in ((REQUEST, f"{paths.REQUESTS}/100-"), (NODE, f"{paths.POOL_NODES}/")):
            damaged = {key: chance.choice(odd) if chance.random() < 0.15 else value for key, value in keys.items()}
            kazoo.create(folder, json.dumps(damaged).encode(), sequence=True)
    view = fresh(cache, zk_session).view()
    assert len(view.requests) + len(view.nodes) + len(cache.quarantined) == 300
    assert view.requests
    assert cache.quarantined.keys() <= quarantine.unread(zk_session).keys()


def test_a_time_in_the_future_counts_from_the_write(zk_session: Session) -> None:
    cache = PoolCache(zk_session, HeldLocks(zk_session), lambda: None)
    cache.load()
    request = add_request(zk_session, state_time=9e9)
    node = add_node(zk_session, PoolNodeState.READY, state_time=9e9)
    view = fresh(cache, zk_session).view()
    now = zk_session.now()
    assert abs(view.requests[request].record.state_time - now) < 60
    assert abs(view.nodes[node].record.state_time - now) < 60
    assert view.requests[request].record.state is RequestState.REQUESTED

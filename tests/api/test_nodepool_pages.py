"""Nodepool's pages on a real server: tables as text, JSON by Accept, and their rights."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Create, LockOwner
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from tests.api.served import ServedApi, problem

PAGES: Final = ("/image-list", "/dib-image-list", "/image-status", "/node-list", "/request-list", "/label-list")
NODE: Final = "0000000007"


def write(session: Session) -> None:
    """A record of each kind; a pause, a lock, and a text that would act on a terminal."""
    now = session.now()
    session.ensure(paths.POOL_NODES, paths.REQUESTS, paths.REQUEST_LOCKS, paths.components("pool"))
    upload = paths.upload("jammy", "0000000001", "north", "0000000001")
    session.ensure(*(paths.builds(image) for image in ("jammy", "noble")))
    ready = PoolNode(
        state=PoolNodeState.READY, state_time=now - 100_000, type=("small", "large"), provider="north", pool="main",
        comment="a\x1b[2J\nb 世界", connection_port=22, user_data='{"a": 1}', external_id="m-1",
    )  # fmt: skip
    request = NodeRequest(
        state=RequestState.PENDING, state_time=now, node_types=("small", "small"), requestor="zuul", event_id="e1"
    )
    build = Build(
        builder="b1",
        builder_id="x",
        filename="jammy-1",
        state=BuildState.READY,
        state_time=1_000.5,
        formats=("qcow2", "raw"),
    )
    session.commit(
        [
            Create(paths.pool_node(NODE), ready),
            Create(paths.pool_node("0000000008"), PoolNode(state=PoolNodeState.INIT, state_time=now)),
            Create(paths.request("100-0000000001"), request),
            Create(f"{paths.components('pool')}/l1", PoolComponent(hostname="l", supported_labels=("small", "big"))),
        ]
    )
    session.commit([Create(paths.build("jammy", "0000000001"), build)])
    session.ensure(paths.uploads("jammy", "0000000001", "north"))
    uploaded = Upload(state=UploadState.DELETE, state_time=2_000.0, format="raw", external_id="e", external_name="n")
    session.commit([Create(upload, uploaded), Create(paths.pause("noble"), Pause(by="ann"))])
    owner = LockOwner(daemon="zuul", host="z", pid=1, purpose="use", since=now)
    assert Locks(session).take(paths.pool_node_lock(NODE), owner)


@pytest.fixture(scope="module")
def pages(api: ServedApi) -> Any:
    api.call("deployment/create", {"name": "lab"})
    with Session(api.settings) as session:
        write(session)
        yield api


def listed(api: ServedApi, path: str, **headers: str) -> Any:
    answer = api.ask("GET", path, Accept="application/json", **headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_a_table_has_nodepools_headers_and_no_character_that_acts_on_a_terminal(pages: ServedApi) -> None:
    answer = pages.ask("GET", "/node-list?fields=id,label,age,locked,comment")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    shown = re.sub(r"\d\d:\d\d:\d\d:\d\d", "DD:HH:MM:SS", answer.text)
    assert shown == (
        "+------------+-------------+-------------+----------+----------+\n"
        "| ID         | Label       | Age         | Locked   | Comment  |\n"
        "+------------+-------------+-------------+----------+----------+\n"
        f"| {NODE} | small,large | DD:HH:MM:SS | locked   | a\\x1b[2J |\n"
        "|            |             |             |          | b 世界   |\n"
        "| 0000000008 |             | DD:HH:MM:SS | unlocked |          |\n"
        "+------------+-------------+-------------+----------+----------+"
    )
    assert pages.ask("GET", "/label-list?fields=nothing").text == ""


def test_json_comes_by_accept_with_nodepools_keys(pages: ServedApi) -> None:
    (node,) = listed(pages, f"/node-list?node_id={NODE}")
    assert (node["label"], node["server_id"], node["connection_port"]) == (["small", "large"], "m-1", 22)
    assert (node["locked"], node["AZ"], node["age"][:5]) == ("locked", None, "01:03")
    assert listed(pages, "/node-list?node_id=9") == []
    assert [each["connection_port"] for each in listed(pages, "/node-list")] == [22, "redacted"]
    (request,) = listed(pages, "/request-list")
    assert (request["id"], request["node_types"], request["nodes"]) == ("100-0000000001", ["small", "small"], [])
    assert listed(pages, "/label-list") == [{"label": "big"}, {"label": "small"}]
    (build,) = listed(pages, "/dib-image-list")
    assert (build["id"], build["formats"], build["age"]) == ("jammy-0000000001", ["qcow2", "raw"], 1000)
    (upload,) = listed(pages, "/image-list")
    assert (upload["id"], upload["upload_id"], upload["state"]) == ("0000000001", "0000000001", "deleting")
    assert [(each["image"], each["paused"]) for each in listed(pages, "/image-status")] == [
        ("jammy", False),
        ("noble", True),
    ]


def test_the_pages_need_a_viewer_without_limits(pages: ServedApi) -> None:
    viewer, limited = pages.direct.token(role="viewer"), pages.direct.token(role="admin", deployments=("lab",))
    machine = pages.direct.token(role="join")
    for path in PAGES:
        assert pages.ask("GET", path, token=viewer).status_code == 200
        for token in (limited, machine):
            assert problem(pages.ask("GET", path, token=token)) == (403, "denied", "Denied")
    assert problem(pages.client.get(PAGES[0]))[0] == 401
    assert (pages.client.get("/ready").status_code, pages.client.get("/ready").text) == (200, "OK")


@pytest.mark.long
def test_open_pages_need_no_token_and_open_nothing_else(zk_settings: ZooKeeperSettings, tmp_path: Any) -> None:
    api = ServedApi(zk_settings, tmp_path, open_pages=True)
    try:
        for path in PAGES:
            answer = api.client.get(path, headers={"Origin": "https://board.example.com"})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
            assert api.client.get(path, headers={"Host": "evil.example.com"}).status_code == 422
        assert api.client.get("/v1/nodes").status_code == 401
        assert api.client.get("/v1/requests").status_code == 401
    finally:
        api.close()

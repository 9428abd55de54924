"""``request create``, ``list``, ``show`` and ``delete`` against a real ZooKeeper."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import RequestState
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import Ocb

Ask = Callable[..., Any]


def test_a_request_is_created_with_its_end_listed_shown_and_deleted(
    ask: Ask, launcher: PlayedLauncher, ocb: Ocb
) -> None:
    launcher.registers("small", "large")
    words = "request create --label small --label large --count 2 --priority 50 --tenant ci --expires 1h"
    made = ask(*words.split())
    (id,) = launcher.requests()
    assert id.startswith("050-")
    assert made["changes"][0] | {"name": id} == made["changes"][0]
    record = launcher.request(id)
    assert record.state is RequestState.REQUESTED
    assert record.node_types == ("small", "small", "large", "large")
    assert record.tenant_name == "ci"
    assert record.created_time is not None
    assert record.expires == pytest.approx(record.created_time + 3600)
    assert (record.requestor or "").startswith("nodepool-ocb:")
    (row,) = ask("request", "list")
    assert (row["name"], row["state"], row["labels"]) == (id, "requested", ["small", "small", "large", "large"])
    shown = ask("request", "show", id.partition("-")[2].lstrip("0") or "0")
    assert shown["name"] == id
    assert shown["tenant_name"] == "ci"
    assert ocb("request", "delete", id).exit_code == 2  # it asks, and there is no terminal
    assert ocb("request", "delete", id, "--yes").exit_code == 0
    assert launcher.requests() == []


def test_a_request_is_in_the_journal_with_the_call(ask: Ask, launcher: PlayedLauncher) -> None:
    ask(*["request", "create", "--label", "small", "--reason", "nightly"])
    (id,) = launcher.requests()
    (entry, *_) = ask("history", "--limit", "1")
    assert entry["verb"] == "request create"
    assert entry["reason"] == "nightly"
    assert id in json.dumps(entry)


def test_a_dry_run_creates_nothing(ocb: Ocb, launcher: PlayedLauncher) -> None:
    assert ocb(*["request", "create", "--label", "small", "--dry-run"]).exit_code == 10
    assert launcher.requests() == []


def test_labels_without_a_pool_and_missing_launchers_are_named(ocb: Ocb, launcher: PlayedLauncher) -> None:
    assert "no launcher is running" in ocb(*["request", "create", "--label", "small"]).stderr
    launcher.registers("small")
    stderr = ocb(*["request", "create", "--label", "smal"]).stderr
    assert "no running pool has label smal" in stderr
    assert "did you mean `small`" in stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--count 600 --label a --label b", "1 to 400 nodes"),
        ("--label a --expires 0s", "is in the past"),
    ],
)
def test_impossible_requests_are_refused(ocb: Ocb, launcher: PlayedLauncher, words: str, message: str) -> None:
    result = ocb("request", "create", *words.split())
    assert result.exit_code == 1
    assert message in result.stderr
    assert launcher.requests() == []


def test_wait_ends_when_the_request_is_fulfilled_and_prints_its_nodes(ocb: Ocb, launcher: PlayedLauncher) -> None:
    launcher.registers("small")

    def serve() -> None:
        while not launcher.requests():
            threading.Event().wait(0.05)
        launcher.fulfils(launcher.requests()[0], launcher.makes())

    server = threading.Thread(target=serve)
    server.start()
    result = ocb(*["request", "create", "--label", "small", "--wait", "--timeout", "20", "-o", "json"])
    server.join(10)
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["outcome"] == "fulfilled"
    assert [each["address"] for each in document["leases"]] == ["127.0.0.1"]


def test_wait_ends_with_the_reason_when_the_request_failed(ocb: Ocb, launcher: PlayedLauncher) -> None:
    launcher.registers("small")

    def refuse() -> None:
        while not launcher.requests():
            threading.Event().wait(0.05)
        launcher.fails(launcher.requests()[0], "each pool declined it")

    server = threading.Thread(target=refuse)
    server.start()
    result = ocb(*["request", "create", "--label", "small", "--wait", "--timeout", "20"])
    server.join(10)
    assert result.exit_code == 6
    assert "each pool declined it" in result.stderr


def test_a_wait_that_times_out_leaves_the_request(ocb: Ocb, launcher: PlayedLauncher) -> None:
    result = ocb(*["request", "create", "--label", "small", "--wait", "--timeout", "0.5"])
    assert result.exit_code == 5
    assert "was not fulfilled within 0.5 s, and stays; see: nodepool-ocb request show 100-" in result.stderr
    assert len(launcher.requests()) == 1


def test_a_damaged_request_is_named_and_left_out(ocb: Ocb, launcher: PlayedLauncher) -> None:
    launcher.stores(f"{paths.REQUESTS}/100-0000000077", {"state": "dancing"})
    result = ocb("request", "list")
    assert result.exit_code == 0
    assert "100-0000000077 is left out" in result.stderr


def test_foreign_text_is_escaped(ocb: Ocb, launcher: PlayedLauncher) -> None:
    evil = "\x1b]0;owned\x07"
    document = {
        "state": "requested",
        "state_time": 1.0,
        "node_types": ["small"],
        "requestor": evil,
        "requestor_data": {"a": evil},
    }
    launcher.stores(f"{paths.REQUESTS}/100-0000000078", document)
    for words in ("request list", "request show 100-0000000078", "request show 100-0000000078 -o json"):
        result = ocb(*words.split())
        assert result.exit_code == 0, words
        assert "\x1b" not in result.stdout
        assert "owned" in result.stdout or "list" in words


def test_a_request_that_does_not_exist_is_not_found(ocb: Ocb, launcher: PlayedLauncher) -> None:
    assert "no other request" in ocb("request", "show", "100-0000000001").stderr
    ocb(*["request", "create", "--label", "small"])
    (id,) = launcher.requests()
    result = ocb("request", "show", f"{id}1")
    assert result.exit_code == 3
    assert "does not exist" in result.stderr


def test_the_reason_for_waiting_names_what_this_host_knows(ask: Ask, launcher: PlayedLauncher) -> None:
    ask("request", "create", "--label", "small")
    (id,) = launcher.requests()
    shown = ask("request", "show", id)
    assert (shown["place"], shown["waits_for"]) == (1, "NO_LAUNCHER")
    launcher.registers("small")
    shown = ask("request", "show", id)
    where = f"its limits are in the nodepool.yaml of the launcher on host1; ask there: nodepool-ocb request show {id}"
    assert shown["reason"] == f"west/main has its labels; {where}"
    assert [each["reason"] for each in shown["pools"]] == [where]
    assert [(each["name"], each["code"]) for each in shown["pools"]] == [("west/main", "ELSEWHERE")]


NODEPOOL = """\
labels: [{name: small}, {name: huge}]
providers:
  - name: west
    driver: static
    pools:
      - name: main
        nodes:
          - {name: 127.0.0.9, labels: [small], username: root, host-key-checking: false}
"""


def test_with_the_file_of_launchers_each_pool_has_its_verdict(
    ask: Ask, launcher: PlayedLauncher, tmp_path: Path
) -> None:
    (tmp_path / "nodepool.yaml").write_text(NODEPOOL)
    config = tmp_path / "nodepool-ocb.yaml"
    config.write_text(f"launcher: {{nodepool: {tmp_path}/nodepool.yaml}}\n")
    launcher.launches()
    launcher.registers("small")
    ask("request", "create", "--label", "small", "--count", "2")
    ask("request", "create", "--label", "small")
    (row, other) = ask("request", "list", "--config", str(config))
    assert [row["place"], other["place"]] == [1, 2]
    shown = ask("request", "show", row["name"], "--config", str(config))
    assert [(each["name"], each["code"]) for each in shown["pools"]] == [("west/main", "LIMIT")]
    assert "too few slots of small" in shown["reason"]


def test_a_list_of_pools_names_a_node_with_an_unreadable_record(ocb: Ocb, ask: Ask, launcher: PlayedLauncher) -> None:
    launcher.registers("small")
    launcher.stores(f"{paths.POOL_NODES}/0000000077", {"state": "dancing", "provider": "west", "pool": "main"})
    launcher.stores(f"{paths.POOL_NODES}/0000000078", {"state": "dancing"})
    assert "0000000077 is left out" in ocb("pool", "list").stderr
    rows = {row["name"]: row["nodes"] for row in ask("pool", "list")}
    assert rows == {"west/main": {"unreadable": 1}, "-/-": {"unreadable": 1}}

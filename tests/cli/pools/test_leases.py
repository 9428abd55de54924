"""``lease list``, ``show``, ``take``, ``return``, ``hold``, ``release`` and ``delete`` against a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.store.locks import contenders
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import Ocb

Ask = Callable[..., Any]


def _request(ocb: Ocb, launcher: PlayedLauncher, nodes: int = 1) -> tuple[str, list[str]]:
    """A fulfilled request and its nodes."""
    assert ocb("request", "create", "--label", "small", "--count", str(nodes)).exit_code == 0
    (id,) = launcher.requests()
    made = [launcher.makes() for _ in range(nodes)]
    launcher.fulfils(id, *made)
    return id, made


def test_take_holds_all_nodes_for_a_while_and_return_ends_it(ask: Ask, ocb: Ocb, launcher: PlayedLauncher) -> None:
    id, nodes = _request(ocb, launcher, 2)
    taken = ask("lease", "take", id, "--for", "2h", "--comment", "debugging")
    assert [each["name"] for each in taken["leases"]] == nodes
    assert launcher.requests() == []
    for node in nodes:
        record = launcher.node(node)
        assert record.state is PoolNodeState.HOLD
        assert record.hold_expiration == 7200.0
        assert (record.comment or "").endswith(": debugging")
        assert record.allocated_to == id
    (row, _) = ask("lease", "list", "--request", id)
    assert row["until"] == pytest.approx(taken["until"])
    ask("lease", "return", *nodes)
    assert {launcher.node(node).state for node in nodes} == {PoolNodeState.USED}
    assert ask("lease", "return", *nodes)["changes"] == []


def test_the_locks_of_a_command_end_with_it(ocb: Ocb, launcher: PlayedLauncher) -> None:
    id, (node,) = _request(ocb, launcher)
    assert ocb("lease", "take", id).exit_code == 0
    assert contenders(launcher.session.children(paths.pool_node_lock(node)) or ()) == []


def test_take_takes_all_or_none(ocb: Ocb, launcher: PlayedLauncher) -> None:
    id, nodes = _request(ocb, launcher, 2)
    contender = launcher.locks(nodes[1])
    result = ocb("lease", "take", id)
    assert result.exit_code == 4
    assert f"node {nodes[1]} is locked" in result.stderr
    assert {launcher.node(node).state for node in nodes} == {PoolNodeState.READY}
    assert contenders(launcher.session.children(paths.pool_node_lock(nodes[0])) or ()) == []
    launcher.unlocks(contender)
    launcher.changes(nodes[0], state=PoolNodeState.DELETING)
    result = ocb("lease", "take", id)
    assert result.exit_code == 4
    assert f"node {nodes[0]} of request {id} is deleting" in result.stderr


def test_only_a_fulfilled_request_can_be_taken(ocb: Ocb, launcher: PlayedLauncher) -> None:
    ocb("request", "create", "--label", "small")
    (id,) = launcher.requests()
    result = ocb("lease", "take", id)
    assert result.exit_code == 4
    assert "only a fulfilled one has nodes" in result.stderr


def test_a_dry_run_takes_nothing_and_locks_nothing(ocb: Ocb, launcher: PlayedLauncher) -> None:
    id, (node,) = _request(ocb, launcher)
    assert ocb("lease", "take", id, "--dry-run").exit_code == 10
    assert launcher.node(node).state is PoolNodeState.READY
    assert launcher.session.children(paths.pool_node_lock(node)) is None
    assert launcher.requests() == [id]


def test_hold_and_release(ask: Ask, launcher: PlayedLauncher) -> None:
    node = launcher.makes()
    ask("lease", "hold", node, "--comment", "kernel panic", "--for", "1d")
    record = launcher.node(node)
    assert record.state is PoolNodeState.HOLD
    assert (record.comment or "").endswith(": kernel panic")
    assert record.hold_expiration == 86400.0
    assert ask("lease", "show", node)["comment"] == record.comment
    ask("lease", "release", node.lstrip("0") or "0")
    record = launcher.node(node)
    assert (record.state, record.comment, record.hold_expiration) == (PoolNodeState.USED, None, None)


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("release", PoolNodeState.IN_USE),
        ("return", PoolNodeState.READY),
        ("hold", PoolNodeState.BUILDING),
        ("hold", PoolNodeState.DELETING),
    ],
)
def test_verbs_refuse_other_states(ocb: Ocb, launcher: PlayedLauncher, verb: str, state: PoolNodeState) -> None:
    node = launcher.makes(state=state)
    result = ocb("lease", verb, node)
    assert result.exit_code == 4
    assert f"node {node} is {state}" in result.stderr
    assert launcher.node(node).state is state


@pytest.mark.parametrize("verb", ["return", "hold", "release", "delete"])
def test_a_locked_node_is_left_to_its_client(ocb: Ocb, launcher: PlayedLauncher, verb: str) -> None:
    state = PoolNodeState.HOLD if verb in ("return", "release") else PoolNodeState.READY
    node = launcher.makes(state=state)
    launcher.locks(node)
    result = ocb("lease", verb, node, *(["--yes"] if verb == "delete" else []))
    assert result.exit_code == 4
    assert "is locked" in result.stderr
    assert launcher.node(node).state is state


def test_delete_asks_and_leaves_the_work_to_launchers(ocb: Ocb, launcher: PlayedLauncher) -> None:
    node = launcher.makes(state=PoolNodeState.FAILED)
    assert ocb("lease", "delete", node).exit_code == 2
    assert launcher.node(node).state is PoolNodeState.FAILED
    assert ocb("lease", "delete", node, "--yes").exit_code == 0
    assert launcher.node(node).state is PoolNodeState.DELETING


def test_list_filters_and_foreign_comments_are_escaped(ask: Ask, ocb: Ocb, launcher: PlayedLauncher) -> None:
    one = launcher.makes("small", comment="\x1b[2Jgone")
    other = launcher.makes("large", state=PoolNodeState.BUILDING)
    assert [each["name"] for each in ask("lease", "list")] == [one, other]
    assert [each["name"] for each in ask("lease", "list", "--label", "large")] == [other]
    assert [each["name"] for each in ask("lease", "list", "--state", "ready")] == [one]
    assert ask("lease", "list", "--provider", "east") == []
    for words in ("lease list", f"lease show {one}", f"lease show {one} -o json", "lease list -o yaml"):
        assert "\x1b" not in ocb(*words.split()).stdout


def test_a_node_that_does_not_exist_is_not_found(ocb: Ocb, launcher: PlayedLauncher) -> None:
    assert ocb("lease", "show", "0000000099").exit_code == 3
    launcher.makes()
    refused = ocb("lease", "return", "0000000099").stderr
    assert "lease 0000000099 does not exist; see: nodepool-ocb lease list" in refused  # the id of no other node


def test_pools_are_listed_and_shown(ask: Ask, ocb: Ocb, launcher: PlayedLauncher) -> None:
    assert "no launcher is running" in ocb("pool", "list").stderr
    launcher.registers("small", "large")
    launcher.registers("huge", pool="spare", paused=True)
    node = launcher.makes()
    launcher.makes(provider="gone", pool="main")
    ocb("request", "create", "--label", "small")
    rows = {row["name"]: row for row in ask("pool", "list")}
    assert {name: row["state"] for name, row in rows.items()} == {
        "gone/main": "gone",
        "west/main": "running",
        "west/spare": "paused",
    }
    assert rows["west/main"]["labels"] == ["large", "small"]
    assert rows["west/main"]["nodes"] == {"ready": 1}
    assert "1 ready" in ocb("pool", "list").stdout
    assert (rows["west/main"]["requests"], rows["west/spare"]["requests"]) == (1, 0)
    shown = ask("pool", "show", "west/main")
    assert [each["name"] for each in shown["leases"]] == [node]
    assert [each["host"] for each in shown["members"]] == ["host1"]
    assert ask("pool", "show", "spare")["name"] == "west/spare"
    result = ocb("pool", "show", "main")
    assert result.exit_code == 2
    assert "gone/main or west/main" in result.stderr
    assert ocb("pool", "show", "west/mian").exit_code == 3


def test_the_status_names_launchers_and_counts_the_nodes_and_requests_of_pools(
    ask: Ask, ocb: Ocb, launcher: PlayedLauncher
) -> None:
    assert "POOLS" not in ocb("status").stdout
    ocb("request", "create", "--label", "small")
    assert "no launcher is running" in ocb("status").stderr
    launcher.launches()
    launcher.registers("small")
    launcher.makes()
    found = ask("status")
    assert [each["host"] for each in found["daemons"] if each["kind"] == "launcher"] == ["host1"]
    assert found["pools"] == {"all": 1, "served": 1, "nodes": {"ready": 1}, "requests": {"requested": 1}}
    shown = ocb("status")
    assert "no launcher is running" not in shown.stderr
    for sentence in ("POOLS: 1", "1 ready", "1 requested"):
        assert sentence in shown.stdout


def test_erase_deletes_the_records_of_a_provider_that_is_gone(ocb: Ocb, launcher: PlayedLauncher) -> None:
    kept = launcher.makes()
    gone = launcher.makes(provider="gone", external_id="vm-7", state=PoolNodeState.IN_USE)
    again = launcher.makes(provider="gone")
    launcher.unlocks(launcher.locks(again))  # its lock leaves a folder
    launcher.registers("small")
    result = ocb("pool", "erase", "west", "--yes")
    assert result.exit_code == 4
    assert "the launcher on host1 has provider west" in result.stderr
    assert ocb("pool", "erase", "gone").exit_code == 2
    result = ocb("pool", "erase", "gone", "--yes")
    assert result.exit_code == 0, result.stderr
    assert "gone may still have vm-7: delete it there by hand" in result.stderr
    assert launcher.session.children(paths.POOL_NODES) == [kept]
    assert gone
    assert ocb("pool", "erase", "gone", "--yes").exit_code == 3

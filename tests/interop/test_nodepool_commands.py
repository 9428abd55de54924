"""Nodepool 11's command line, unmodified, on our records: each output equals its output on records of Nodepool's own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.pool import NodeRequest, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.model.records import Create
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.guarded import SUPERUSER, Guarded
from tests.fixtures.upstream import SCRIPTS

pytestmark = pytest.mark.long

SECONDS: Final = 120  # for one command
CONFIGURATION: Final = """
zookeeper-servers:
  - {host: HOST, port: PORT, chroot: CHROOT}
zookeeper-tls: {cert: FOLDER/client.crt, key: FOLDER/client.key, ca: FOLDER/ca.pem}
labels: [{name: small}]
providers:
  - name: static
    driver: static
    pools: [{name: main, nodes: [{name: 127.0.0.2, labels: small}]}]
"""
AGE: Final = re.compile(r"\b\d\d:\d\d:\d\d:\d\d\b")
READS: Final = (["list"], ["list", "--detail"], ["request-list"], ["info", "static"])


def nodes(now: float) -> dict[str, PoolNode]:
    """A node in each state, with the fields of a launch."""
    return {
        f"{number:010}": PoolNode(
            state=state,
            state_time=now,
            type=("small",),
            provider="static",
            pool="main",
            allocated_to="100-0000000001" if state is PoolNodeState.IN_USE else None,
            public_ipv4="198.51.100.7",
            interface_ip="127.0.0.2",
            connection_port=2222,
            ssh_port=2222,
            connection_type="ssh",
            username="root",
            hostname=f"small-static-{number:010}",
            external_id=f"127.0.0.2:2222#{number}",
            launcher="host-1",
            created_time=now,
            host_keys=("ssh-ed25519 AAAA",),
            comment="kept for a look" if state is PoolNodeState.HOLD else None,
        )
        for number, state in enumerate(PoolNodeState)
    }


def requests(now: float) -> dict[str, NodeRequest]:
    """A request in each state."""
    return {
        f"100-{number:010}": NodeRequest(
            state=state,
            state_time=now,
            node_types=("small", "small"),
            nodes=("0000000003",) if state is RequestState.FULFILLED else (),
            declined_by=("host-1-static-main",) if state is RequestState.FAILED else (),
            requestor="zuul",
            requestor_data={"job": "unit"},
            relative_priority=number,
            event_id="event-1",
            created_time=now,
        )
        for number, state in enumerate(RequestState)
    }


class Tree:
    """One chroot, and Nodepool's command on it."""

    def __init__(self, guarded: Guarded, program: Path, chroot: str, folder: Path) -> None:
        self.guarded, self.chroot, self._program = guarded, chroot, program
        self.settings = replace(guarded.settings(SUPERUSER, f"/{chroot}"), username=None, password=None)
        host, _, port = guarded.server.hosts.partition(":")
        names = {"HOST": host, "PORT": port, "CHROOT": f"/{chroot}", "FOLDER": str(guarded.folder)}
        self._file = folder / f"{chroot}.yaml"
        self._file.write_text(re.sub("|".join(names), lambda found: names[found[0]], CONFIGURATION))

    def run(self, *words: str) -> str:
        """The output of a command, with each age as the same text."""
        done = subprocess.run(
            [self._program / "nodepool", "-c", self._file, *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-1000:]
        return AGE.sub("00:00:00:00", done.stdout)


class Trees:
    """The same records twice: ours written by this product, theirs by Nodepool's classes."""

    def __init__(self, guarded: Guarded, nodepool11: Path, folder: Path) -> None:
        root = Session(replace(guarded.settings(SUPERUSER), username=None, password=None))
        with root:
            root.ensure("/ours", "/theirs")
        self.ours = Tree(guarded, nodepool11, "ours", folder)
        self.theirs = Tree(guarded, nodepool11, "theirs", folder)
        self.session = Session(self.ours.settings)
        self.session.start()
        now = self.session.now()
        self._ours(nodes(now), requests(now))
        self._theirs(nodes(now), requests(now), nodepool11)

    def _ours(self, made: dict[str, PoolNode], asked: dict[str, NodeRequest]) -> None:
        self.session.ensure(paths.POOL_NODES, paths.REQUESTS, paths.REQUEST_LOCKS)
        self.session.commit([Create(paths.pool_node(id), record) for id, record in made.items()])
        self.session.commit([Create(paths.request(id), record) for id, record in asked.items()])

    def _theirs(self, made: dict[str, PoolNode], asked: dict[str, NodeRequest], nodepool11: Path) -> None:
        folder, hosts = self.theirs.guarded.folder, self.theirs.settings.hosts
        files = {"cert": "client.crt", "key": "client.key", "ca": "ca.pem"}
        order: dict[str, Any] = {key: str(folder / name) for key, name in files.items()} | {"hosts": hosts}
        order["nodes"] = {id: msgspec.to_builtins(record) for id, record in made.items()}
        order["requests"] = {id: msgspec.to_builtins(record) for id, record in asked.items()}
        command = [nodepool11 / "python", SCRIPTS / "write_records.py"]
        subprocess.run(command, input=json.dumps(order).encode(), timeout=SECONDS, check=True)

    def node(self, id: str) -> PoolNode | None:
        """A node of ours as it is now."""
        znode = self.session.get(paths.pool_node(id))
        return None if znode is None else codec.decode(PoolNode, znode)


@pytest.fixture(scope="module")
def trees(nodepool11: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trees]:
    with Guarded(demands_user=False) as guarded:
        made = Trees(guarded, nodepool11, tmp_path_factory.mktemp("interop"))
        yield made
        made.session.close()


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_nodepools_command_shows_our_records_as_its_own(trees: Trees, words: list[str]) -> None:
    ours, theirs = trees.ours.run(*words), trees.theirs.run(*words)
    assert ours == theirs
    assert f"{len(PoolNodeState) - 1:010}" in ours or "100-0000000000" in ours


@pytest.mark.parametrize(("words", "state"), [(["hold"], PoolNodeState.HOLD), (["delete"], PoolNodeState.DELETING)])
def test_a_node_that_nodepools_command_rewrites_is_read_with_its_fields(
    trees: Trees, words: list[str], state: PoolNodeState
) -> None:
    identity = f"{list(PoolNodeState).index(PoolNodeState.READY):010}"
    before = trees.node(identity)
    ours, theirs = trees.ours.run(*words, identity), trees.theirs.run(*words, identity)
    after = trees.node(identity)
    assert ours == theirs
    assert before is not None
    assert after is not None
    assert after.state is state
    assert (after.hostname, after.external_id, after.host_keys) == (
        before.hostname,
        before.external_id,
        before.host_keys,
    )


def test_erase_deletes_the_nodes_of_a_provider_in_both_trees(trees: Trees) -> None:
    assert trees.ours.run("erase", "static", "--force") == trees.theirs.run("erase", "static", "--force")
    assert trees.session.children(paths.POOL_NODES) == []

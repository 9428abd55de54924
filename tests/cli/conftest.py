"""The command line against a real ZooKeeper, and a small world to ask about."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import Json, NodeRole, Set
from nodepool_ocb.noderole import State
from nodepool_ocb.store import paths, tree
from nodepool_ocb.store.session import Session

BARCLAMP = """\
barclamp: {name: chain, version: 1}
roles:
  - {name: base, jig: noop, flags: [implicit]}
  - name: middle
    jig: noop
    flags: [implicit]
    requires: [base]
    attribs:
      - {name: middle-size, map: middle/size, default: 1, schema: {type: int}}
  - {name: top, jig: noop, requires: [middle]}
  - {name: other, jig: noop, conflicts: [top]}
"""

Ocb = Callable[..., Result]


@pytest.fixture
def ocb(zk_settings: ZooKeeperSettings, zk_session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ocb:
    """Run the command line in this process, below a chroot with a new cluster: ``ocb("node", "list")``."""
    assert zk_session.connected
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", zk_settings.hosts)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, arguments, prog_name="nodepool-ocb")

    return run


@pytest.fixture
def ask(ocb: Ocb) -> Callable[..., Json]:
    """Run it with ``-o json``; it must succeed and print exactly one document."""

    def run(*arguments: str, exit_code: int = 0) -> Json:
        result = ocb(*arguments, "-o", "json")
        assert result.exit_code == exit_code, (result.stdout, result.stderr)
        return json.loads(result.stdout)

    return run


@pytest.fixture
def world(ocb: Ocb, zk_session: Session, tmp_path: Path) -> Session:
    """Roles base ← middle ← top bound to n1.example.com in deployment lab, all PROPOSED."""
    (tmp_path / "chain.yml").write_text(BARCLAMP)
    for line in (
        f"barclamp import {tmp_path / 'chain.yml'}",
        "deployment create lab",
        "node create n1.example.com --deployment lab --tag web --label room=1",
        "node bind n1.example.com top",
    ):
        result = ocb(*line.split())
        assert result.exit_code == 0, (line, result.output)
    return zk_session


@pytest.fixture
def becomes(world: Session) -> Callable[..., None]:
    """Put a noderole into a state, as an annealer would: ``becomes("base@n1.example.com", State.ERROR)``."""

    def put(name: str, state: State, **fields: object) -> None:
        vertex = tree.load(world).vertex(name)
        assert vertex is not None
        record = NodeRole(state=state, since=1.0, deployment="lab", parents=vertex.record.parents, **fields)  # type: ignore[arg-type]
        world.commit([Set(paths.noderole(*paths.split_noderole(name)), record, vertex.version)])

    return put

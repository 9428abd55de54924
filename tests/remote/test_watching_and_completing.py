"""``status --watch`` and the completion of names at a server of the API: as directly, without a session with ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Set, State
from nodepool_ocb.operations.cluster.watching import StatusWatchLook
from nodepool_ocb.remote import tokens
from nodepool_ocb.remote.tokens import VARIABLE, StoredToken
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import free_port
from nodepool_ocb.views.pictures.matrix import Matrix, ShownMatrix
from tests.api.served import ServedApi
from tests.cli.background_command import COMMAND
from tests.cli.shells.offering import offered

N1, BASE = "n1.example.com", "base@n1.example.com"
BARCLAMP: Final = """\
barclamp: {name: chain, version: 1}
roles:
  - {name: base, jig: noop, attribs: [{name: zone, map: base/zone, default: UTC}]}
  - {name: top, jig: noop, requires: [base]}
"""
#: The end of a line → the words that are offered.
OFFERS: Final = {
    "node show n1": [N1],
    "noderole show base@n1": [BASE],
    f"noderole set {BASE} ": ["base/zone=", "zone="],
    "deployment show l": ["lab"],
    "node list --tag w": ["web"],
    "node list -l tag:w": ["tag:web"],
    "tasks run --deployment lab --end ": [],
    "node show zz": [],
}


@pytest.fixture(scope="module")
def lab(api: ServedApi, tmp_path_factory: pytest.TempPathFactory) -> ServedApi:
    """Roles base ← top on one node, PROPOSED; and a node outside deployment lab."""
    file = tmp_path_factory.mktemp("roles") / "chain.yaml"
    file.write_text(BARCLAMP)
    for words in (
        f"barclamp import {file}",
        "deployment create lab",
        f"node create {N1} --deployment lab --tag web",
        "node create n2.example.com",
        f"node bind {N1} --role base --role top",
        "node bind n2.example.com base",
    ):
        done = CliRunner().invoke(cli, ["--zookeeper", api.settings.hosts, *words.split()])
        assert done.exit_code == 0, done.output
    return api


@pytest.fixture(autouse=True)
def person(lab: ServedApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, lab.token)


def becomes(lab: ServedApi, name: str, state: State, **fields: Any) -> None:
    with Session(lab.settings) as session:
        vertex = load_world(session).vertex(name)
        assert vertex is not None
        record = vertex.record.amended(state=state, **fields)
        session.commit([Set(paths.noderole(*paths.split_noderole(name)), record, vertex.version)])


@pytest.fixture
def watching(lab: ServedApi) -> Iterator[subprocess.Popen[str]]:
    words = [*COMMAND, "--api", lab.address, "status", "--watch", "--deployment", "lab", "-o", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        yield process
        process.kill()


def test_a_watch_at_a_server_follows_states_and_reasons(lab: ServedApi, watching: subprocess.Popen[str]) -> None:
    becomes(lab, BASE, State.PROPOSED)
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    becomes(lab, BASE, State.ERROR, reason="disk full")
    then = json.loads(watching.stdout.readline())
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 130
    assert (first["nodes"], first["noderoles"]["PROPOSED"], len(first["changed"])) == (1, 2, 2)
    assert then["changed"] == [{"noderole": BASE, "state": "ERROR", "reason": "disk full"}]


def test_a_matrix_that_was_seen_is_shown_as_the_one_of_the_world(lab: ServedApi) -> None:
    lab.call("node/hold", {"nodes": [N1], "reason": "disk"})
    shown, own = ShownMatrix(), Matrix(lambda each: each.record.deployment == "lab")
    with Session(lab.settings) as session:
        world = load_world(session)
        own.now = session.now()
    moved = own.update(world, world.nodes)
    assert shown.see(lab.direct.perform(StatusWatchLook(deployment="lab"))) == moved
    assert (shown.nodes, shown.counts, shown.roles, shown.note(N1)) == (own.nodes, own.counts, own.roles, own.note(N1))
    assert "held" in shown.note(N1)
    assert shown.moment(moved) == own.moment(moved)
    gone = shown.see(lab.direct.perform(StatusWatchLook(selector="name:no*")))
    assert ([each.state for each in gone], shown.nodes, +shown.counts) == ([None, None], {}, {})


def test_a_watch_shows_a_token_the_noderoles_within_its_limits(lab: ServedApi) -> None:
    limited = lab.direct.token(name="lou", role="viewer", deployments=("lab",))
    found = lab.ask("GET", "/v1/status/watch-look", None, limited).json()["answer"]["nodes"]
    assert {*found} == {N1}
    assert {*lab.ask("GET", "/v1/status/watch-look").json()["answer"]["nodes"]} == {N1, "n2.example.com"}


@pytest.mark.parametrize("line", OFFERS)
def test_names_are_completed_through_a_server(lab: ServedApi, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_API", lab.address)
    assert offered(line) == OFFERS[line]


def test_completion_is_silent_without_a_server_a_token_or_a_right(
    lab: ServedApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = "node show n"
    limited = lab.direct.token(name="lou", role="viewer", deployments=("lab",))
    monkeypatch.setenv(VARIABLE, limited)
    assert offered(f"--api {lab.address} {line}") == []
    monkeypatch.setenv(VARIABLE, "ocb_0_wrong")
    assert offered(f"--api {lab.address} {line}") == []
    monkeypatch.delenv(VARIABLE)
    assert offered(f"--api {lab.address} {line}") == []
    gone = f"http://127.0.0.1:{free_port()}"
    tokens.keep(gone, StoredToken(token=lab.token))
    assert (tmp_path / "nodepool-ocb").exists()
    assert offered(f"--api {gone} {line}") == []


@pytest.mark.long
def test_completion_costs_little_beyond_its_request(lab: ServedApi) -> None:
    """The process of a shell, beside the same process that ends before it asks."""
    environment = {**os.environ, "NODEPOOL_OCB_API": lab.address, "_NODEPOOL_OCB_COMPLETE": "fish_complete"}

    def seconds(line: str) -> float:
        begun = time.perf_counter()
        subprocess.run(
            COMMAND, env={**environment, "_NODEPOOL_OCB_LINE": f"nodepool-ocb {line}"}, check=True, stdout=-1
        )
        return time.perf_counter() - begun

    both = [(seconds("node sh"), seconds("node show n")) for _ in range(7)]
    request = min(lab.ask("POST", "/v1/completion", {"kind": "nodes"}).elapsed.total_seconds() for _ in range(7))
    assert min(asked for _, asked in both) - min(bare for bare, _ in both) - request < 0.3

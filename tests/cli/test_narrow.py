"""Tables on a terminal of 80 columns: no line of any listing verb is wider, with names as long as real ones."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Create, Daemon, NodeRole, Run, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.cli.images.played_builder import Builder
from tests.fixtures.commands import Ocb

WIDTHS: Final = (80, 60)
NODE: Final = "compute-0123.rack17.east-2.example.com"
ROLE: Final = "crowbar-managed-node"
DEPLOYMENT: Final = "production-east-2"
REASON: Final = "exit code 3: the mirror at http://mirror.east-2.example.com/debian does not answer"
BARCLAMP: Final = f"""\
barclamp: {{name: crowbar-infrastructure, version: 1}}
roles:
  - {{name: {ROLE}, jig: noop, flags: [implicit, discovery, bootstrap]}}
  - {{name: {ROLE}-top, jig: noop, flags: [implicit], requires: [{ROLE}]}}
"""
TASKS: Final = "- {id: configure-the-cluster-of-databases, type: shell, role: ['*'], parameters: {cmd: 'true'}}\n"
STRATEGY: Final = (
    "groups: [{name: everything-of-the-control-plane, critical: true, depends_on: [], selectors: [],"
    " success_criteria: {percent_successful_nodes: 90, minimum_successful_nodes: 1, maximum_failed_nodes: 1}}]\n"
)
LINES: Final = """
status
role list
deployment list
deployment show {deployment}
node list
node show {node}
noderole list
noderole show {role}@{node}
image list
image show debian-12-hardened
upload list
daemon list
lock list
rollout check {strategy}
rollout plan {strategy} --deployment {deployment}
rollout list
rollout show {deployment}
tasks check {tasks}
tasks list
tasks plan --deployment {staging}
tasks runs {staging}
tasks history {staging}
barclamp check {barclamp}
noderole wait {role}@{node} --timeout 0
""".strip()
PROGRAM: Final = """
import json, sys
from nodepool_ocb.cli.main import cli
for line in json.loads(sys.argv[1]):
    print("== " + line, flush=True)
    try:
        cli(line.split(), prog_name="nodepool-ocb", standalone_mode=False)
    except BaseException as error:
        assert type(error).__name__ in ("Exit", "SystemExit"), error
    sys.stdout.flush()
print("== end", flush=True)
"""


@pytest.fixture
def filled(ocb: Ocb, zk_session: Session, tmp_path: Path) -> dict[str, str]:
    """A cluster in which every listing verb has something to list; gives what stands in braces."""
    texts = {"barclamp.yml": BARCLAMP, "tasks.yaml": TASKS, "strategy.yaml": STRATEGY}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = {name.partition(".")[0]: str(tmp_path / name) for name in texts}
    words |= {"node": NODE, "role": ROLE, "deployment": DEPLOYMENT, "staging": "staging-east-2"}
    for line in (
        "barclamp import {barclamp}",
        "deployment create {deployment}",
        "node create {node} --deployment {deployment} --tag control --tag compute --label room=12 --rack rack17",
        "node bind {node} {role}-top",
        "deployment commit {deployment} --no-noderoles",
        "rollout start {strategy} --deployment {deployment}",
        "deployment create {staging}",
        "node create compute-0124.rack17.east-2.example.com --deployment {staging}",
        "deployment commit {staging} --no-noderoles",
        "tasks upload {tasks} --deployment {staging}",
        "tasks run --deployment {staging} --facts-file none",
    ):
        result = ocb(*line.format_map(words).split())
        assert result.exit_code == 0, (line, result.output)
    _work(zk_session)
    return words


def _work(session: Session) -> None:
    """What daemons would have written."""
    vertex = load_world(session).vertex(f"{ROLE}@{NODE}")
    assert vertex is not None
    record = NodeRole.of(state=State.ERROR, since=1.0, deployment=DEPLOYMENT, reason=REASON, run="1-a")
    log = "annealer-1.east-2.example.com:/var/log/nodepool-ocb/runs/1-a.log"
    run = Run(annealer="a", started=1.0, ended=2.0, outcome="failed", generation=1, epoch=1, reason=REASON, log=log)
    daemon = Daemon(
        host="annealer-1.east-2.example.com",
        pid=12345,
        version="1.2.3",
        started=time.time(),
        jigs=("noop", "script", "test"),
    )
    changes: list[Any] = [Set(paths.noderole(ROLE, NODE), record, vertex.version)]
    changes += [Create(paths.run(ROLE, NODE, "1-a"), run)]
    changes += [Create(paths.daemon("annealer", "9f86d081-annealer-1"), daemon, ephemeral=True)]
    session.ensure(paths.daemons("annealer"))
    session.commit(changes)
    builder = Builder(session, "debian-12-hardened", host="builder-1.east-2.example.com")
    builder.made(BuildState.FAILED, reason=REASON)
    build = builder.made(BuildState.READY)
    builder.uploads(build, "openstack-east-2", UploadState.FAILED, reason=REASON, external_id="0123456789abcdef" * 2)


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
def test_no_listing_verb_has_a_line_that_is_wider_than_the_terminal(
    filled: dict[str, str], zk_settings: ZooKeeperSettings, width: int
) -> None:
    """A name that is itself wider is not folded: the terminal wraps it, and it can be copied."""
    printed = _on_a_terminal(
        [f"--zookeeper {zk_settings.hosts} {line}" for line in LINES.format_map(filled).splitlines()], width
    )
    wide = {}
    silent = []
    for part in printed.split("== ")[1:-1]:
        line, _, text = part.partition("\n")
        assert "unexpected" not in text, part
        silent += [] if text.strip() else [line]
        rows = [row.rstrip() for row in text.splitlines()]
        found = [
            row
            for row in rows
            if len(row) > max(width, len(row.split("  ")[0]))
            and not row.startswith(("error: ", "warning: ", "  nodepool-ocb"))
        ]
        wide |= {line: found} if found else {}
    assert printed.endswith("== end\n")
    assert not wide, json.dumps(wide, indent=1)
    assert silent == []


def _on_a_terminal(lines: list[str], width: int) -> str:
    """What these commands print, one after the other, on a terminal of so many columns; what they say goes elsewhere."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, width))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    drawn = b""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=env | {"TERM": "xterm"},
    ) as process:
        os.close(theirs)
        while chunk := _read(ours):
            drawn += chunk
    os.close(ours)
    assert process.returncode == 0, drawn.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode()).replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # its other side is closed
        return b""

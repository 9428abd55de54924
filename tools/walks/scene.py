"""A cluster of one ZooKeeper server, one machine with sshd, an annealer and a builder, in which the eight walks are taken.

Every program is one of the measured tree. This module runs with that tree's own Python, and so it uses only those parts of
``nodepool_ocb.testing`` that earlier commits have, too.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import BUILDER, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import Server, init
from walks.figures import Call, Figures, calls, figures

NODE: Final = "n1.example.com"
LAST_CALLS_SECONDS: Final = 1.5  # a daemon's work after the answer of a command, and the writing of the trace
COMMAND_SECONDS: Final = 120.0

STRATEGY: Final = "groups:\n  - {name: all, critical: true, depends_on: [], selectors: []}\n"
TASKS: Final = "- id: one\n  type: shell\n  version: 2.0.0\n  role: [web]\n  parameters: {cmd: 'true', timeout: 30}\n"
ARCHIVE: Final = "echo hi > x; tar cf $NODEPOOL_OCB_OUTPUT_TAR x"


class Walk(msgspec.Struct, frozen=True):
    """One of the eight, in one program."""

    name: str
    program: str  # a command line, or the name of a daemon
    figures: Figures


class Scene:
    """A cluster under way."""

    def __init__(self, tree: Path, folder: Path, server: Server) -> None:
        self.tree = tree
        self.folder = folder
        self.zookeeper = init(ZooKeeperSettings(hosts=server.hosts, session_timeout_seconds=8.0))
        self._commands = 0
        self._settings = folder / "nodepool-ocb.yaml"
        self._settings.write_text(yaml.safe_dump({"zookeeper": {"hosts": server.hosts}}))

    @contextmanager
    def daemon(self, name: str, process: DaemonProcess) -> Iterator[None]:
        """A daemon, traced under its name."""
        process.environment |= self._traced(name)
        with process:
            yield

    def run(self, words: str) -> str:
        """The output of a command that is no part of a walk; raises RuntimeError if it fails."""
        return self._run(words, {})

    def walk(self, name: str, *commands: str, daemon: str | None = "annealer") -> Iterator[Walk]:
        """The walk of these commands, and that of the daemon meanwhile."""
        began = time.time()
        for words in commands:
            self._commands += 1
            traced = f"command{self._commands}"
            self._run(words, self._traced(traced))
            yield Walk(name, words.replace(f"{self.folder}/", ""), figures(calls(self.folder, traced)))
        time.sleep(LAST_CALLS_SECONDS)
        ended = time.time()
        if daemon is not None:
            met: list[Call] = [call for call in calls(self.folder, daemon) if began <= call.at <= ended]
            yield Walk(name, daemon, figures(met))

    def _traced(self, name: str) -> dict[str, str]:
        tools = Path(__file__).parents[1]
        return {
            "PYTHONPATH": f"{tools / 'walks' / 'hook'}:{tools}",
            "OCB_WALK": str(self.folder / name),
            "OCB_WALK_TREE": str(self.tree),
        }

    def _run(self, words: str, more: dict[str, str]) -> str:
        command = self.tree / ".venv/bin/nodepool-ocb"
        environment = os.environ | {"NODEPOOL_OCB_CONFIG": str(self._settings)} | more
        done = subprocess.run(
            [command, *shlex.split(words)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(
                f"nodepool-ocb {words}: exit {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}"
            )
        return done.stdout


def walks(tree: Path, folder: Path) -> Iterator[Walk]:
    """All walks, in the order in which one follows from the other."""
    with Server(fsync=False) as server, Farm(1, folder / "machines") as farm:
        scene = Scene(tree, folder, server)
        settings = {"ssh": farm.settings(), "annealer": {"probe_seconds": 60.0}}
        with scene.daemon("annealer", DaemonProcess(scene.zookeeper, folder / "a1", settings)):
            _prepare(scene, farm)
            yield from _of_noderoles(scene)
            yield from _of_sites_and_tasks(scene)
        builder = DaemonProcess(scene.zookeeper, folder / "b1", launcher=BUILDER)
        (folder / "b1" / "nodepool.yaml").write_text(yaml.safe_dump(_images(folder)))
        with scene.daemon("builder", builder):
            _until_uploaded(scene)
            yield from scene.walk("build", "image build cell --wait --timeout 60", daemon="builder")


def _prepare(scene: Scene, farm: Farm) -> None:
    """A node with its first roles ACTIVE."""
    fqdn, node = farm.records()[0]
    root = str(farm.state_dir(fqdn).parent / "root")
    scene.run(f"barclamp import {scene.tree}/etc/barclamps")
    scene.run("deployment create shop")
    where = f"--address {node.addresses[0]} --user {node.user} --deployment shop --tag web --label uid=1"
    scene.run(f"node create {NODE} {where}")
    scene.run(f"noderole set machine-base@{NODE} {shlex.quote('ocb/root=' + json.dumps(root))}")
    scene.run("deployment commit shop --wait --timeout 60")


def _of_noderoles(scene: Scene) -> Iterator[Walk]:
    scene.run("deployment propose shop")
    yield from scene.walk("bind", f"node bind {NODE} timezone", daemon=None)
    yield from scene.walk("commit", "deployment commit shop --wait --timeout 60")
    scene.run("deployment propose shop")
    yield from scene.walk(
        "outdated",
        "deployment set shop motd motd_text='\"hello\"'",
        "noderole list --outdated",
        "deployment commit shop --wait --timeout 60",
    )
    yield from scene.walk("drift", f"noderole check motd@{NODE} --wait --timeout 60")
    (scene.folder / "strategy.yaml").write_text(STRATEGY)
    scene.run(f"node bind {NODE} sysctl")
    strategy = scene.folder / "strategy.yaml"
    yield from scene.walk("rollout", f"rollout start {strategy} --deployment shop --wait --timeout 60")


def _of_sites_and_tasks(scene: Scene) -> Iterator[Walk]:
    site = yaml.safe_load(scene.run("export"))
    site["nodes"][NODE]["tags"] = ["web", "db"]
    site["deployments"]["shop"]["roles"]["motd"]["user"]["motd"]["text"] = "other"
    (scene.folder / "site.yaml").write_text(yaml.safe_dump(site))
    yield from scene.walk("apply", f"apply -f {scene.folder / 'site.yaml'} --yes", daemon=None)
    listing = scene.folder / "list"
    listing.mkdir()
    (listing / "tasks.yaml").write_text(TASKS)
    scene.run(f"tasks upload {listing} --deployment shop")
    yield from scene.walk("tasks", "tasks run --deployment shop --facts-file none --wait --timeout 60")


def _images(folder: Path) -> dict[str, object]:
    image = {
        "name": "cell",
        "backend": "command",
        "options": {"argv": ["/bin/sh", "-euc", ARCHIVE]},
        "formats": ["tar"],
    }
    shelf = {
        "name": "shelf",
        "driver": "local",
        "format": "tar",
        "directory": str(folder / "shelf"),
        "diskimages": [{"name": "cell"}],
    }
    return {"images-dir": str(folder / "b1" / "images"), "diskimages": [image], "providers": [shelf]}


def _until_uploaded(scene: Scene) -> None:
    """The builder makes the first build by itself; the walk is that of the second. Raises RuntimeError after a minute."""
    deadline = time.monotonic() + 60.0
    while "ready" not in scene.run("upload list").lower():
        if time.monotonic() > deadline:
            raise RuntimeError((scene.folder / "b1" / "log").read_text()[-2000:])
        time.sleep(0.5)


def report(walked: Sequence[Walk]) -> Iterator[str]:
    """The table of all walks."""
    yield f"{'walk':10}{'modules':>8}{'folders':>8}{'two-way':>8}  program"
    for walk in walked:
        found = walk.figures
        yield f"{walk.name:10}{len(found.modules):>8}{len(found.folders):>8}{len(found.two_way):>8}  {walk.program}"

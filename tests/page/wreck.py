"""A cluster in which much has failed for real: scripts on machines with a real sshd, a machine that is off, an image that no
script can build, a task list, and a pause. One annealer and one builder work on it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import yaml
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.processes import BUILDER, DaemonProcess
from tests.api.served import ServedApi

TUNING: Final = {"probe_seconds": 1.0, "dead_probe_seconds": 0.5}
IMAGE: Final = "noble"
BUILD: Final = "import sys; print('E: Release file of mirror.example.com expired 3 days ago'); sys.exit(9)"
OFF: Final = "db4.example.com"
PAUSE: Final = "the switch of hall 2 is replaced"
#: Role → its script and the seconds that it may take.
SCRIPTS: Final = {
    "packages": ("echo 'E: Unable to locate package ntp-4.2' >&2; exit 1", 60),
    "backup": ("head -c 100000 /dev/zero > /dev/full", 60),  # the kernel's own disk without space
    "migrate": ("echo 'waits for the lock of table orders'; sleep 600", 2),
    "agent": ("true", 60),
    "base": ("true", 60),
}
#: Node → deployment and role.
NODES: Final = {
    "web1.example.com": ("lab", "packages"),
    "web2.example.com": ("lab", "packages"),
    "web3.example.com": ("lab", "backup"),
    "db1.example.com": ("lab", "migrate"),
    OFF: ("lab", "agent"),
    "fuel1.example.com": ("fuel", "base"),
    "shop1.example.com": ("shop", "agent"),
}
FAILURES: Final = 5  # noderoles in ERROR: one of them is of the task list
TASKS: Final = """\
- {id: prepare, type: shell, role: ['*'], version: 2.1.0, parameters: {cmd: 'true', timeout: 30}}
- id: route
  type: shell
  role: ['*']
  version: 2.1.0
  requires: [prepare]
  parameters: {cmd: 'echo "RTNETLINK answers: Network is unreachable" >&2; exit 4', timeout: 30}
"""


class Wreck:
    """All of it, running. Close it with ``close``."""

    def __init__(self, settings: ZooKeeperSettings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.farm = Farm(len(NODES), folder / "machines").__enter__()
        self.api = ServedApi(settings, folder / "api")
        sections = {"ssh": self.farm.settings(), "annealer": TUNING}
        self.annealer = DaemonProcess(settings, folder / "annealer", sections)
        self.builder = DaemonProcess(settings, folder / "builder", launcher=BUILDER)

    def close(self) -> None:
        for each in (self.annealer, self.builder, self.api):
            each.close()
        self.farm.close()

    def ocb(self, words: str, status: int = 0) -> None:
        done = CliRunner().invoke(cli, [*words.split(), "--zookeeper", self.settings.hosts], prog_name="nodepool-ocb")
        assert done.exit_code == status, f"{words}: {done.output}"

    def begin(self) -> None:
        """Start the daemons, and let all of it fail."""
        self._roles()
        self.farm.unplug([*NODES].index(OFF))
        self.api.call("deployment/pause", {"names": ["shop"], "reason": PAUSE})
        self._image()
        self.annealer.start()
        self.builder.start()
        for name in ("lab", "shop", "fuel"):
            self.ocb(f"deployment commit {name}")
        tasks = self.folder / "puppet/rel/modules/tasks.yaml"
        tasks.parent.mkdir(parents=True)
        tasks.write_text(TASKS)
        self.ocb(f"tasks sync --dir {self.folder}/puppet")
        self.ocb("tasks upload --deployment fuel --base rel")
        self.ocb("tasks run --deployment fuel")

    def settled(self) -> bool:
        """Whether all of it has failed."""
        seen = self.api.ask("GET", "/v1/status").json()["answer"]
        failed = (len(seen["errors"]), len(seen["task_runs"]["failed"]), len(seen["images"]["failing"]))
        return failed == (FAILURES, 1, 1) and [each["name"] for each in seen["nodes"]["not_alive"]] == [OFF]

    def _roles(self) -> None:
        script = "#!/bin/sh\nset -e\n{}\n"
        roles = [
            {"name": name, "jig": "script", "script": script.format(text), "timeout_seconds": seconds}
            for name, (text, seconds) in SCRIPTS.items()
        ]
        barclamp = self.folder / "wreck.yaml"
        barclamp.write_text(yaml.safe_dump({"barclamp": {"name": "wreck", "version": 1}, "roles": roles}))
        self.ocb(f"barclamp import {barclamp}")
        for name in ("lab", "fuel", "shop"):
            self.api.call("deployment/create", {"name": name})
        for number, (fqdn, (deployment, role)) in enumerate(NODES.items()):
            _, node = self.farm.records()[number]
            where = f"--deployment {deployment} --address {node.addresses[0]} --user {node.user}"
            self.ocb(f"node create {fqdn} {where} --tag web --rack r{number % 2} --label uid={number + 1}")
            self.ocb(f"node bind {fqdn} {role}")

    def _image(self) -> None:
        image = {
            "name": IMAGE,
            "backend": "command",
            "options": {"argv": [sys.executable, "-c", BUILD]},
            "formats": ["raw"],
        }
        local = {"name": "local", "driver": "local", "directory": str(self.folder / "local"), "format": "raw"}
        nodepool = {
            "images-dir": str(self.folder / "images"),
            "diskimages": [image],
            "providers": [{**local, "diskimages": [{"name": IMAGE}]}],
        }
        (self.folder / "builder/nodepool.yaml").write_text(yaml.safe_dump(nodepool))

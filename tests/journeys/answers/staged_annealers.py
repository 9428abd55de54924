"""Annealers in this process, without machines: jig test, and a prober that answers as a test says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nodepool_ocb import config
from nodepool_ocb.catalogue import code
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.daemon.registration import of_this_process
from nodepool_ocb.jigs import installed
from nodepool_ocb.jigs.ssh.probe import Alive, Prober, Unreachable
from nodepool_ocb.model.records import Node
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb_annealer.annealer import Annealer
from tests.fixtures.annealers import ThreadedAnnealer


class StagedProber(Prober):
    """Nodes that are not in ``answers`` are alive; nothing is connected."""

    def __init__(self) -> None:
        super().__init__(config.SshSettings())
        self.answers: dict[str, Alive | Unreachable] = {}

    def probe(self, fqdn: str, node: Node, anew: bool = False) -> Alive | Unreachable:  # noqa: ARG002
        return self.answers.get(fqdn, Alive())

    def lacks(self) -> None:
        return None


class StagedAnnealer(ThreadedAnnealer):
    """It has jig test, and asks a ``StagedProber`` for machines."""

    def __init__(self, zookeeper: ZooKeeperSettings, identity: str, folder: Path, **settings: Any) -> None:
        own = {
            "sweep_seconds": 0.5, "steal_delay_seconds": 0.02, "probe_seconds": 0.1, "dead_probe_seconds": 0.1,
            "log_dir": str(folder / identity), **settings,
        }  # fmt: skip
        self.settings = msgspec.convert({"annealer": own}, config.Settings)
        self.prober = StagedProber()
        jigs, _ = installed(self.settings)
        record = of_this_process(jigs=tuple(sorted(jigs)), slots=10, code=code.installed())
        secrets = Secrets(self.settings.secrets)
        super().__init__(zookeeper, self.settings.annealer, jigs, self.prober, identity, record, secrets)

    def have(self, call: Callable[[Annealer], object]) -> None:
        """Have it made on the turn thread."""
        self.annealer.context.post(lambda: call(self.annealer) and None)

"""One annealer process that a test may do anything to; it is ended by its process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from nodepool_ocb.testing.proxy import Proxy

PATIENCE_SECONDS: Final = 30.0
MAIN: Final = ("-m", "nodepool_ocb_annealer.main")


class Annealer:
    """One annealer process; ``log`` is what it said."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], proxy: Proxy, launcher: Collection[str]) -> None:
        folder.mkdir(parents=True)
        self.proxy = proxy
        self._config = folder / "nodepool-ocb.yaml"
        self._config.write_text(yaml.safe_dump(dict(settings)))
        self._log = folder / "log"
        self._launcher = launcher
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> Annealer:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._launcher, "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | environment,
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def frozen(self) -> bool:
        """Whether it is stopped (SIGSTOP), by us or by itself."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL: gone at once, with nothing said to anybody."""
        assert self._process is not None, "it was started"
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM; it goes on until it has drained."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_seconds: float = PATIENCE_SECONDS) -> int:
        """The exit status."""
        assert self._process is not None, "it was started"
        return self._process.wait(timeout_seconds)

    def close(self) -> None:
        if self.running:
            self.kill()
        self.proxy.close()

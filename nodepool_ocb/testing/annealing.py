"""A real annealer process, started and ended here, and what the kernel and the server know about it.

The process is ``python -m nodepool_ocb_annealer.main`` with a configuration of its own; its log is in its directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import yaml

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.testing.zookeeper import free_port

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Annealer:
    """One annealer; ``sections`` are more of its configuration: {"annealer": {"slots": 3}}."""

    def __init__(
        self, zookeeper: ZooKeeperSettings, directory: Path, sections: Mapping[str, Any] | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "log"
        self._url = f"http://127.0.0.1:{(port := free_port())}"
        self._config = directory / "nodepool-ocb.yaml"
        settings: dict[str, Any] = {
            "zookeeper": {k: v for k, v in msgspec.to_builtins(zookeeper).items() if v is not None},
            "http": {"listen": f"127.0.0.1:{port}"},
            **(sections or {}),
        }
        settings["annealer"] = {"log_dir": str(directory / "runs"), **settings.get("annealer", {})}
        self._config.write_text(yaml.safe_dump(settings))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Raises RuntimeError while it does not run."""
        if self._process is None:
            raise RuntimeError("this annealer is not running")
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """User's and system's, of all its threads, since it began."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def start(self, timeout_seconds: float = 60.0) -> None:
        """Return when it is ready: everything has been read. Raises RuntimeError with the end of its log otherwise."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nodepool_ocb_annealer.main", "--config", str(self._config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            await_that(self.ready, timeout_seconds, "the annealer is ready", alive=self.running)
        except RuntimeError as late:
            self.close()
            raise RuntimeError(f"{late}; its log ends:\n{self.log.read_text(errors='replace')[-2000:]}") from None

    def metric(self, name: str) -> float:
        """The value of a line of its /metrics, labels included in the name; 0 where there is none yet."""
        with urllib.request.urlopen(f"{self._url}/metrics", timeout=5.0) as page:
            lines = page.read().decode().splitlines()
        return next((float(line[len(name) :]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> bool:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{self._url}/health/ready", timeout=2.0) as page,
        ):
            return bool(page.status == 200)
        return False

    def close(self, timeout_seconds: float = 15.0) -> None:
        """SIGTERM, and SIGKILL where that does not end it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Annealer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def await_that(
    holds: Callable[[], bool], timeout_seconds: float, what: str, *, alive: Callable[[], bool] = lambda: True
) -> None:
    """Return when ``holds()`` does; RuntimeError naming ``what`` when it does not in time, or ``alive()`` ends."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if not alive():
            raise RuntimeError(f"its process ended before this came true: {what}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"this did not come true within {timeout_seconds:g} s: {what}")
        time.sleep(0.02)

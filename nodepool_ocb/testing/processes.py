"""A real daemon process that a test may do anything to, and the facts that the kernel and the daemon's own pages give about it.

The process is ``python -m MODULE --config FILE`` with a configuration of its own, forked from a process that has imported the
module already where that makes no difference (forkserver). Its log is in its folder. It is ended by its process id, never by
its name.
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
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import yaml
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, Unavailable
from nodepool_ocb.testing import forkserver
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import free_port

ANNEALER: Final = ("-m", "nodepool_ocb_annealer.main")
API: Final = ("-m", "nodepool_ocb.api.main")
BUILDER: Final = ("-m", "nodepool_ocb_builder.main")
LAUNCHER: Final = ("-m", "nodepool_ocb_launcher.main")

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User's and system's, of all threads of a process, since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class DaemonProcess:
    """One daemon; ``sections`` are its configuration beside ``zookeeper`` and ``http``: {"annealer": {"slots": 3}}.

    ``launcher`` has the arguments of Python. The configuration is written when the object is made.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperSettings,
        folder: Path,
        sections: Mapping[str, Any] | None = None,
        launcher: Collection[str] = ANNEALER,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        self.pages = f"127.0.0.1:{free_port()}"  # HOST:PORT of /metrics and /health
        self.config = folder / "nodepool-ocb.yaml"
        self.environment: dict[str, str] = {}  # more of it, each time that it is started
        self._launcher = launcher
        settings: dict[str, Any] = {
            "zookeeper": {key: value for key, value in msgspec.to_builtins(zookeeper).items() if value is not None},
            "http": {"listen": self.pages},
            **(sections or {}),
        }
        if launcher is ANNEALER:
            settings["annealer"] = {"log_dir": str(folder / "runs"), **settings.get("annealer", {})}
        self.config.write_text(yaml.safe_dump(settings))
        self._process: subprocess.Popen[bytes] | forkserver.Forked | None = None

    def configure(self, **sections: Mapping[str, Any]) -> None:
        """Write these keys into the sections of its configuration; a running one has them after a reload."""
        settings = yaml.safe_load(self.config.read_text())
        for name, keys in sections.items():
            settings[name] = {**settings.get(name, {}), **keys}
        self.config.write_text(yaml.safe_dump(settings))

    # -- state and measurements --

    @property
    def pid(self) -> int:
        """Raises RuntimeError before it was started."""
        return self._started.pid

    @property
    def _started(self) -> subprocess.Popen[bytes] | forkserver.Forked:
        if self._process is None:
            raise RuntimeError("this daemon was not started")
        return self._process

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def frozen(self) -> bool:
        """Whether it is stopped (SIGSTOP), by us or by itself."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    @property
    def said(self) -> str:
        """All of its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def cpu_seconds(self) -> float:
        """User's and system's, of all its threads, since it began."""
        return cpu_seconds(self.pid)

    @property
    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def metric(self, name: str) -> float:
        """The value of a line of its /metrics, labels included in the name; 0 where there is none yet."""
        with urllib.request.urlopen(f"http://{self.pages}/metrics", timeout=5.0) as page:
            lines = page.read().decode().splitlines()
        return next((float(line[len(name) :]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def ready(self) -> bool:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"http://{self.pages}/health/ready", timeout=2.0) as page,
        ):
            return bool(page.status == 200)
        return False

    # -- its life --

    def begin(self, **environment: str) -> Self:
        """Start it, and do not wait. A PYTHONPATH comes before that of this process, as in a shell that prepends to it."""
        arguments, more = [*self._launcher, "--config", str(self.config)], self.environment | environment
        if "PYTHONPATH" in more and (ours := os.environ.get("PYTHONPATH")):
            more["PYTHONPATH"] += f"{os.pathsep}{ours}"
        if forkserver.can_fork(arguments, more):
            self._process = forkserver.shared().start(arguments, os.environ | more, self.log)
            return self
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | more,
                start_new_session=True,
            )
        return self

    def begin_again(self) -> None:
        """As systemd would, where it ended because ZooKeeper was not there when it began, or a disk could not be used."""
        if self._process is not None and self._process.poll() in (Unavailable.exit_code, Invalid.exit_code):
            self.begin()

    def start(self, timeout_seconds: float = 60.0) -> Self:
        """Return when it is ready: everything has been read. Raises RuntimeError with the end of its log otherwise."""
        self.begin()
        try:
            await_that(self.ready, timeout_seconds, "the daemon is ready", alive=self.running)
        except BaseException as late:  # also Ctrl-C
            self.close()
            if isinstance(late, RuntimeError):
                raise RuntimeError(f"{late}; its log ends:\n{self.said[-2000:]}") from None
            raise
        return self

    def kill(self) -> None:
        """SIGKILL: the daemon ends without a word to its peers."""
        self._started.kill()
        self._started.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def reload(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def terminate(self) -> None:
        """Send SIGTERM; the daemon continues until it has drained."""
        os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_seconds: float = 30.0) -> int:
        """The exit status."""
        return self._started.wait(timeout_seconds)

    def close(self, timeout_seconds: float = 15.0) -> None:
        """SIGTERM, and SIGKILL where that does not end it."""
        if not self.running():
            return
        self.thaw()
        self.terminate()
        try:
            self.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class CutDaemon(DaemonProcess):
    """A daemon behind a proxy of its own, which may be cut; ``zookeeper.hosts`` is the chroot alone.

    ``ports`` are those of the servers.
    """

    def __init__(
        self,
        ports: Collection[int],
        zookeeper: ZooKeeperSettings,
        folder: Path,
        sections: Mapping[str, Any] | None = None,
        launcher: Collection[str] = ANNEALER,
    ) -> None:
        self.proxy = Proxy(*ports)
        super().__init__(replace(zookeeper, hosts=self.proxy.hosts + zookeeper.hosts), folder, sections, launcher)

    def discard(self, timeout_seconds: float = 0.0) -> None:
        """End it for good, at once or as well as it can in some seconds, and the proxy with it."""
        if timeout_seconds:
            self.close(timeout_seconds)
        elif self.running():
            self.kill()
        self.proxy.close()


def await_that(
    holds: Callable[[], bool], timeout_seconds: float, what: str, *, alive: Callable[[], bool] = lambda: True
) -> None:
    """Return when ``holds()`` does; RuntimeError naming ``what`` when it does not in time, or ``alive()`` ends."""
    looked = time.monotonic()
    deadline = looked + timeout_seconds
    while not holds():
        if not alive():
            raise RuntimeError(f"its process ended before this came true: {what}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"this did not come true within {timeout_seconds:g} s: {what}")
        looked = rest(looked)

"""A private ZooKeeper server of Debian's package, to be killed, frozen and cut off; nothing of it is left afterwards.

``Server`` is a context manager and listens on 127.0.0.1 alone. ``Proxy`` (testing.proxy) stands between it and a
client.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.ports import free_port as free_port
from nodepool_ocb.testing.proxy import Proxy as Proxy

JARS = Path("/usr/share/java")
CLASSES = ("zookeeper", "slf4j-simple", "netty-buffer", "netty-codec", "netty-common", "netty-handler",
           "netty-resolver", "netty-transport", "netty-transport-native-epoll",
           "netty-transport-native-unix-common")  # fmt: skip
CONFIG = """\
dataDir={directory}/data
{listen}
tickTime={tick}
minSessionTimeout={tick}
maxSessionTimeout=120000
initLimit=20
syncLimit=10
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""
#: Properties that save CPU: one thread, not two, hands a request of a client over, and the log has no line for each client.
CHEAP = {
    "zookeeper.forceSync": "no",
    "zookeeper.nio.numWorkerThreads": "0",
    "org.slf4j.simpleLogger.defaultLogLevel": "warn",
}


class Server:
    """One ZooKeeper in a folder of its own.

    ``fsync`` off makes tests quicker and measurements untrue. ``settings`` are more lines of zoo.cfg, ``properties``
    more ``-D``. With ``tls`` the lines must have all settings of certificates. ``port`` is the TLS port then, by
    default a free one.
    """

    def __init__(
        self,
        *,
        fsync: bool = True,
        heap: str = "512m",
        tick_ms: int = 500,
        tls: bool = False,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nodepool-ocb-zookeeper-"))
        self.port = port or free_port()
        self.tls = tls
        self._heap = heap
        self._properties = {"zookeeper.forceSync": "yes"} if fsync else dict(CHEAP)
        self._properties |= properties or {}
        self._options = [] if fsync else ["-XX:TieredStopAtLevel=1"]  # of a short life most would be compiling
        listen = f"{'secureClientPort' if tls else 'clientPort'}={self.port}\n"
        listen += f"{'secureClientPortAddress' if tls else 'clientPortAddress'}=127.0.0.1"
        text = CONFIG.format(directory=self.directory, listen=listen, tick=tick_ms)
        text += "".join(f"{key}={value}\n" for key, value in (settings or {}).items())
        (self.directory / "zoo.cfg").write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """The connection string."""
        return f"127.0.0.1:{self.port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """On 127.0.0.1, where clients connect."""
        return (self.port,)

    @property
    def pid(self) -> int:
        """The server's process; raises RuntimeError while it does not run."""
        if self._process is None:
            raise RuntimeError("this ZooKeeper is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether there is a process, which may be frozen."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_seconds: float = 120.0) -> None:
        """Start, and return when it serves; raises RuntimeError with the end of its log where it does not."""
        self.begin()
        self.await_serving(timeout_seconds)

    def begin(self) -> None:
        """Start it, and do not wait."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def await_serving(self, timeout_seconds: float = 30.0) -> None:
        """Return when it serves; raises RuntimeError with the end of its log where it does not in time."""
        deadline = time.monotonic() + timeout_seconds
        while not self.serving():
            if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                tail = (self.directory / "log").read_text(errors="replace")[-2000:]
                self.kill()
                raise RuntimeError(f"ZooKeeper did not start on {self.hosts}:\n{tail}")
            time.sleep(0.02)

    def _command(self) -> list[str]:
        classes = ":".join([str(self.directory), *(f"{JARS / name}.jar" for name in CLASSES)])
        properties = {
            "zookeeper.preAllocSize": "4096",  # KiB; 64 MiB each time would be the default
            "org.slf4j.simpleLogger.showDateTime": "true",
            **self._properties,
        }
        return [
            *("java", f"-Xmx{self._heap}", "-XX:+UseSerialGC", "-XX:-UsePerfData", *self._options),
            *(f"-D{key}={value}" for key, value in properties.items()),
            *("-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain"),
            str(self.directory / "zoo.cfg"),
        ]

    def serving(self) -> bool:
        """Whether it answers now (over TLS: whether it accepts connections)."""
        if self.tls:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return True
            return False
        return "Mode:" in self.ask("srvr")

    def ask(self, word: str, timeout_seconds: float = 2.0) -> str:
        """The answer to a four letter word; empty if there is none."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.port), timeout_seconds) as conversation,
        ):
            conversation.sendall(word.encode())
            return b"".join(iter(lambda: conversation.recv(65536), b"")).decode(errors="replace")
        return ""

    def kill(self) -> None:
        """SIGKILL, also while it is stopped. Data that were written with fsync on are still there after start()."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Freeze it (SIGSTOP): connections stay open, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def cont(self) -> None:
        """Let a frozen server continue."""
        os.kill(self.pid, signal.SIGCONT)

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:  # also Ctrl-C
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def init(settings: ZooKeeperSettings) -> ZooKeeperSettings:
    """Make a cluster at a place, as ``nodepool-ocb init`` does: no daemon starts without; gives the place."""
    with Session(settings) as session:
        clusters.bootstrap(session, now=session.now())
    return settings

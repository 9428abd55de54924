"""The launchers that are compared, each in a chroot of its own of one server. Nodepool connects by TLS, as it always does."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from benchmarks import ensemble, peers
from benchmarks.pools.rack import Rack
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import LAUNCHER, DaemonProcess
from nodepool_ocb.testing.zookeeper.guarded import certificates
from nodepool_ocb.testing.zookeeper.server import Server, free_port

END_SECONDS: Final = 20.0  # that a peer may take to end


class Stage:
    """A server with a port for TLS beside the plain one; ``folder`` is for the files of the sides."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, content in certificates().items():
            (folder / name).write_bytes(content)
        self.tls_port = free_port()
        self.server = Server(
            fsync=True,
            heap="1g",
            settings={
                "secureClientPort": str(self.tls_port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.clientAuth": "need",
                "ssl.keyStore.location": str(folder / "server.pem"),
                "ssl.trustStore.location": str(folder / "ca.pem"),
            },
        )


@contextmanager
def stage() -> Iterator[Stage]:
    """A stage, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as name:
        made = Stage(Path(name))
        with made.server:
            yield made


@contextmanager
def world(stage: Stage) -> Iterator[tuple[ZooKeeperSettings, Session]]:
    """An unused chroot with a cluster, and a session for it."""
    settings = ensemble.settings(stage.server)
    with Session(settings) as session:
        clusters.bootstrap(session)
        yield settings, session


@contextmanager
def ours(settings: ZooKeeperSettings, folder: Path, rack: Rack, **options: Any) -> Iterator[DaemonProcess]:
    """Our launcher, as it is configured without further settings; ``options`` are of its section."""
    folder.mkdir()
    (folder / "nodepool.yaml").write_text(yaml.safe_dump(rack.document))
    sections = {"launcher": options, "ssh": rack.ssh}
    with DaemonProcess(settings, folder, sections, LAUNCHER) as process:
        yield process


@contextmanager
def nodepool(stage: Stage, settings: ZooKeeperSettings, document: Mapping[str, Any]) -> Iterator[None]:
    """Nodepool's own launcher. Raises RuntimeError if it cannot be installed."""
    environment = peers.environment(".venv-bench-nodepool", peers.OF_NODEPOOL)
    if environment is None:
        raise RuntimeError("Nodepool cannot be installed from PyPI")
    chroot = "/" + settings.hosts.partition("/")[2]
    tls = {"cert": "client.crt", "key": "client.key", "ca": "ca.pem"}
    whole = {
        **document,
        "zookeeper-servers": [{"host": "127.0.0.1", "port": stage.tls_port, "chroot": chroot}],
        "zookeeper-tls": {key: str(stage.folder / name) for key, name in tls.items()},
    }
    file = stage.folder / "nodepool-11.yaml"
    file.write_text(yaml.safe_dump(whole))
    command: list[str | Path] = [environment / "bin/nodepool-launcher", "-f", "-c", file]
    with (
        (stage.folder / "nodepool-11.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            _end(process)


@contextmanager
def bare(settings: ZooKeeperSettings, rack: Rack) -> Iterator[None]:
    """The stand-in without rules (peers/bare_launcher.py); it is ready when the block begins."""
    order = {"hosts": settings.hosts, "machines": rack.addresses, "key": rack.ssh["key_files"][0]}
    script = Path(peers.__file__).with_name("bare_launcher.py")
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            process.stdin.flush()
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the stand-in of a launcher did not start")
            yield
        finally:
            process.stdin.close()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_SECONDS)

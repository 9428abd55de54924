"""A ZooKeeper server that speaks TLS alone and admits known users alone, with a certificate that all its clients share."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from msgspec.structs import replace

from nodepool_ocb.config import TlsSettings, UserSettings, ZooKeeperSettings
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server

SUPERUSER = "super"
USERS = UserSettings(
    people="ocb",
    annealer="ocb-annealer",
    builder="ocb-builder",
    launcher="ocb-launcher",
    api="ocb-api",
    requester="ocb-requester",
)
#: A key on a curve takes a fraction of the CPU that RSA takes, to make it and in each handshake.
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
SETTINGS = {
    "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
    "ssl.clientAuth": "need",
    "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "enforce.auth.enabled": "true",
    "enforce.auth.schemes": "sasl",
}


class Guarded:
    """The server, its certificates, and settings for each of its ``users``; ``SUPERUSER`` and ``USERS`` are among them.

    ``demands_user`` off: a client with the certificate may connect without being a user. ``jaas`` itself names the
    users and their passwords; ``SUPERUSER`` must be among them.
    """

    def __init__(self, users: Sequence[str] = (), demands_user: bool = True, jaas: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nodepool-ocb-guarded-"))
        for name, content in certificates().items():
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600 if name.endswith((".key", ".pem")) else 0o644)
        names = dict.fromkeys((SUPERUSER, *(getattr(USERS, kind) for kind in ClientKind), *users))
        known = "".join(f' user_{user}="{password(user)}"' for user in names)
        ours = f"Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required{known};\n}};\n"
        (self.folder / "jaas.conf").write_text(jaas or ours)
        files = {"ssl.keyStore.location": "server.pem", "ssl.trustStore.location": "ca.pem"}
        settings = SETTINGS | {key: str(self.folder / name) for key, name in files.items()}
        settings["enforce.auth.enabled"] = str(demands_user).lower()
        properties = {"java.security.auth.login.config": str(self.folder / "jaas.conf")}
        self.server = Server(fsync=False, tls=True, settings=settings, properties=properties)

    def settings(self, user: str, chroot: str = "") -> ZooKeeperSettings:
        """For a session of that user."""
        ca, cert, key = (str(self.folder / name) for name in ("ca.pem", "client.crt", "client.key"))
        tls = TlsSettings(ca=ca, cert=cert, key=key)
        hosts = self.server.hosts + chroot
        return ZooKeeperSettings(
            hosts=hosts, tls=tls, username=user, password=password(user), session_timeout_seconds=30.0
        )

    def settings_of(self, kind: ClientKind, chroot: str = "") -> ZooKeeperSettings:
        """For a session of that kind's user, where each kind has one."""
        return replace(self.settings(getattr(USERS, kind), chroot), users=USERS)

    def __enter__(self) -> Guarded:
        self.server.start()
        try:
            patient = replace(self.settings(SUPERUSER), session_timeout_seconds=60.0)
            first = Session(patient)
            first.start(timeout_seconds=120.0)  # its first handshake takes long where the machine is busy
            first.close()
        except BaseException:
            self.server.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def password(user: str) -> str:
    """The password of that user."""
    return f"secret-of-{user}"


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@functools.cache
def certificates() -> Mapping[str, bytes]:
    """The files of an authority and of the names that it signed, made by the first call in this process."""
    with tempfile.TemporaryDirectory(prefix="nodepool-ocb-certificates-") as made:
        folder = Path(made)
        _authority(folder)
        for name in ("server", "client", "stranger"):
            _certificate(folder, name)
        return {file.name: file.read_bytes() for file in folder.iterdir()}


def _authority(folder: Path) -> None:
    _openssl("req", "-x509", *CURVE, "-nodes", "-keyout", folder / "ca.key", "-out", folder / "ca.pem",
             "-subj", "/CN=test-ca", "-days", "2")  # fmt: skip


def _certificate(folder: Path, name: str) -> None:
    """``name.key``, ``name.crt`` signed by the authority, and both in ``name.pem``."""
    key, request, crt = (folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
    _openssl("req", *CURVE, "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}",
             "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
    _openssl("x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-out", crt,
             "-days", "2", "-copy_extensions", "copy")  # fmt: skip
    (folder / f"{name}.pem").write_text(key.read_text() + crt.read_text())

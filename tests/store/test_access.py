"""TLS, SASL and ACLs against a server that insists on all three."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import TlsSettings, ZooKeeperSettings
from nodepool_ocb.errors import Denied, Unavailable
from nodepool_ocb.model import Create, Set
from nodepool_ocb.store import tree
from nodepool_ocb.store.session import Session
from nodepool_ocb.testing.zookeeper import Server

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_super="root" user_ocb="secret" user_other="guess";
};
"""


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def certificate(folder: Path, name: str) -> None:
    """``name.key``, ``name.crt`` signed by ca.crt, and both in ``name.pem``."""
    key, request, crt = (folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}",
            "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
    openssl("x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-out", crt,
            "-days", "2", "-copy_extensions", "copy")  # fmt: skip
    (folder / f"{name}.pem").write_text(key.read_text() + crt.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "ca.key", "-out", folder / "ca.crt",
            "-subj", "/CN=test-ca", "-days", "2")  # fmt: skip
    (folder / "ca.pem").write_text((folder / "ca.crt").read_text())
    certificate(folder, "server")
    certificate(folder, "client")
    certificate(folder, "stranger")
    (folder / "jaas.conf").write_text(JAAS)
    return folder


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Server]:
    """A server that speaks TLS alone and lets in whom it knows."""
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(folder / "server.pem"),
        "ssl.trustStore.location": str(folder / "ca.pem"),
        "ssl.clientAuth": "need",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "sasl",
    }
    properties = {"java.security.auth.login.config": str(folder / "jaas.conf")}
    with Server(fsync=False, tls=True, settings=settings, properties=properties) as server:
        yield server


@pytest.fixture
def ours(guarded: Server, folder: Path, chroot: str) -> ZooKeeperSettings:
    tls = TlsSettings(
        ca=str(folder / "ca.crt"), cert=str(folder / "client.crt"), key=str(folder / "client.key"), verify=True
    )
    return ZooKeeperSettings(hosts=guarded.hosts + chroot, tls=tls, username="ocb", password="secret")


@pytest.fixture
def theirs(ours: ZooKeeperSettings, folder: Path) -> ZooKeeperSettings:
    """Another identity in both respects: with one certificate for all, what one creates is everybody's who has it."""
    assert ours.tls is not None
    tls = replace(ours.tls, cert=str(folder / "stranger.crt"), key=str(folder / "stranger.key"))
    return replace(ours, tls=tls, username="other", password="guess")


def test_a_session_over_tls_with_a_password(ours: ZooKeeperSettings) -> None:
    with Session(ours) as session:
        tree.bootstrap(session)
        blob = {"x": "x" * 200_000}
        session.commit([Create("/ocb/a", blob)])
        session.commit([Set("/ocb/a", blob, 0)])
        found = session.get_many(["/ocb/a"] * 20)
        assert {znode.version for znode in found if znode} == {1}
        assert tree.load(session).cluster is not None


def test_what_we_create_is_ours_alone(ours: ZooKeeperSettings, theirs: ZooKeeperSettings) -> None:
    with Session(ours) as session, Session(theirs) as other:
        session.ensure("/ocb")
        session.commit([Create("/ocb/a", {"secret": 1})])
        with pytest.raises(Denied, match="/ocb/a"):
            other.get("/ocb/a")
        with pytest.raises(Denied, match="/ocb/b"):
            other.commit([Create("/ocb/b")])


def test_what_is_open_is_everybodys(ours: ZooKeeperSettings, theirs: ZooKeeperSettings) -> None:
    with Session(replace(ours, acl="open")) as session, Session(replace(theirs, acl="open")) as other:
        session.ensure("/ocb")
        other.commit([Create("/ocb/b")])
        assert session.get("/ocb/b") is not None


def test_a_wrong_password_is_told_at_the_start(ours: ZooKeeperSettings) -> None:
    with pytest.raises(Denied, match=r"zookeeper\.username"):
        Session(replace(ours, password="wrong")).start()


def test_a_certificate_that_nobody_vouches_for_is_refused(ours: ZooKeeperSettings) -> None:
    assert ours.tls is not None
    with pytest.raises(Unavailable, match=r"certificate verify failed"):
        Session(replace(ours, tls=replace(ours.tls, ca=None))).start(timeout_seconds=1.0)


def test_a_restarted_server_lets_us_in_again(guarded: Server, ours: ZooKeeperSettings) -> None:
    with Session(ours) as session:
        session.ensure("/ocb")
        first = session.id
        guarded.restart()
        stat = session.resolve([Create("/ocb")])  # waits for the connection, and reads
        assert stat[0] is not None
        assert session.id == first

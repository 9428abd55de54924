"""TLS, SASL and ACLs against a server that insists on all three."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Denied, Invalid, OutcomeUnknown, Unavailable
from nodepool_ocb.model.records import Check, Create, Delete, Set
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.answers import Completion
from nodepool_ocb.store.client.outcome import SentTransaction
from nodepool_ocb.store.client.session import Doubt, Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from nodepool_ocb.testing.zookeeper.server import Server


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded(["ocb", "other"]) as made:
        yield made


@pytest.fixture
def ours(world: Guarded, chroot: str) -> ZooKeeperSettings:
    return world.settings("ocb", chroot)


@pytest.fixture
def theirs(world: Guarded, chroot: str) -> ZooKeeperSettings:
    """Another user with the same certificate."""
    return world.settings("other", chroot)


def test_a_session_over_tls_with_a_password(ours: ZooKeeperSettings) -> None:
    with Session(ours) as session:
        clusters.bootstrap(session)
        blob = {"x": "x" * 200_000}
        session.commit([Create("/ocb/a", blob)])
        session.commit([Set("/ocb/a", blob, 0)])
        found = session.get_many(["/ocb/a"] * 20)
        assert {znode.version for znode in found if znode} == {1}
        assert load_world(session).cluster is not None


def test_over_tls_the_connections_thread_alone_sends(ours: ZooKeeperSettings) -> None:
    """Two threads may not use one socket of TLS at once."""
    with Session(ours) as session:
        assert not session._client._connection.send_now(frames.sync("/"), Completion(lambda _: None))


def test_created_znodes_are_closed_to_other_users(ours: ZooKeeperSettings, theirs: ZooKeeperSettings) -> None:
    with Session(ours) as session, Session(theirs) as other:
        session.ensure("/ocb")
        session.commit([Create("/ocb/a", {"secret": 1})])
        with pytest.raises(Denied, match="/ocb/a"):
            other.get("/ocb/a")
        with pytest.raises(Denied, match="read /ocb/a"):
            other.mentioning({"/ocb": ["a"]}, [b"other"])
        with pytest.raises(Denied, match="/ocb/b"):
            other.commit([Create("/ocb/b")])


def test_the_certificate_alone_gives_no_right(chroot: str) -> None:
    with Guarded(["ocb"], demands_user=False) as world:
        ours = world.settings("ocb", chroot)
        with Session(ours) as session, Session(replace(ours, username=None, password=None)) as nobody:
            session.ensure("/ocb/a")
            with pytest.raises(Denied, match="write /ocb/a"):
                nobody.commit([Set("/ocb/a", {"mine": 1}, 0)])


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
        Session(replace(ours, tls=replace(ours.tls, ca=None))).start(timeout_seconds=3.0)


def test_a_certificate_of_another_host_is_refused_where_certificates_are_verified(ours: ZooKeeperSettings) -> None:
    """Else whoever has any certificate of the same authority could stand in for the server."""
    assert ours.tls is not None
    named = replace(ours, hosts=ours.hosts.replace("127.0.0.1", "localhost"))
    with pytest.raises(Unavailable, match=r"certificate verify failed: Hostname mismatch"):
        Session(named).start(timeout_seconds=5.0)
    with Session(replace(named, tls=replace(ours.tls, verify=False))) as session:
        assert session.connected


def test_a_missing_file_of_tls_is_named(ours: ZooKeeperSettings) -> None:
    assert ours.tls is not None
    for key in ("ca", "cert", "key"):
        with pytest.raises(Invalid, match=rf"^zookeeper\.tls\.{key}: /nowhere/x\.pem: No such file"):
            Session(replace(ours, tls=replace(ours.tls, **{key: "/nowhere/x.pem"})))


def test_a_file_that_holds_no_certificate_is_named(ours: ZooKeeperSettings, world: Guarded, tmp_path: Path) -> None:
    assert ours.tls is not None
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(Invalid, match=rf"^zookeeper\.tls\.ca: {empty}: "):
        Session(replace(ours, tls=replace(ours.tls, ca=str(empty))))
    with pytest.raises(Invalid, match=r"^zookeeper\.tls\.cert: .*client\.crt and .*server\.key are no"):
        Session(replace(ours, tls=replace(ours.tls, key=str(world.folder / "server.key"))))


def test_a_server_that_demands_a_user_says_so(ours: ZooKeeperSettings) -> None:
    with pytest.raises(Denied, match=r"clients without a user; set zookeeper\.username"):
        Session(replace(ours, username=None, password=None)).start()


def test_a_server_that_knows_no_users_is_told_from_one_that_is_down(zookeeper: Server, chroot: str) -> None:
    settings = ZooKeeperSettings(hosts=zookeeper.hosts + chroot, username="ocb", password="secret")
    with pytest.raises(Denied, match=r"has no SASL, .*leave zookeeper\.username out"):
        Session(settings).start()


def test_tls_on_a_port_of_plain_text_is_said(zookeeper: Server, ours: ZooKeeperSettings) -> None:
    with pytest.raises(Unavailable, match=r"TLS failed .*secureClientPort"):
        Session(replace(ours, hosts=zookeeper.hosts)).start(timeout_seconds=1.0)


def test_a_missing_right_names_itself_and_the_path(ours: ZooKeeperSettings, theirs: ZooKeeperSettings) -> None:
    with Session(ours) as session, Session(theirs) as other:
        session.ensure("/ocb/a")
        for wanted, change in [("create /ocb/b", Create("/ocb/b")), ("write /ocb/a", Set("/ocb/a", None, 0)),
                               ("delete /ocb/a", Delete("/ocb/a", 0)), ("read /ocb/a", Check("/ocb/a", 0))]:  # fmt: skip
            with pytest.raises(Denied, match=f"does not let this user {wanted}"):
                other.commit([change])
        with pytest.raises(Denied, match="does not let this user read /ocb/a"):
            other.children("/ocb/a")
        with pytest.raises(Denied, match="does not let this user create /ocb/n"):
            other.create_next("/ocb/n", None)
        with pytest.raises(Denied, match=r"does not let this user create \S*/ocb/a/b"):
            other.ensure("/ocb/a/b")  # /ocb, which cannot be read, is there


def test_a_restarted_server_lets_us_in_again(world: Guarded, ours: ZooKeeperSettings) -> None:
    with Session(ours) as session:
        session.ensure("/ocb")
        first = session.id
        world.server.restart()
        with pytest.raises(OutcomeUnknown, match="before others"):  # it waits for the connection, and reads
            session.resolve(Doubt("", SentTransaction([Create("/ocb/none")], [b""], session.last_zxid)))
        assert session.id == first

"""The key of the cluster for logs, on a real ZooKeeper: made once, renewed without a gap, and shown to no reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Invalid, Unavailable
from nodepool_ocb.http import proofs
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Cluster, Create, Delete, LogKey, Set
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.store import clusters, logkeys
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import Direct

Until = Callable[..., None]


def forget(session: Session) -> None:
    """The cluster becomes one of before such keys."""
    session.commit([Delete(paths.LOG_KEY, 0), Delete(paths.KEYS, 0)])
    found = session.get(paths.CLUSTER)
    assert found is not None
    session.commit([Set(paths.CLUSTER, Cluster(id=clusters.current(session).id), found.version)])


def match(session: Session) -> bool:
    """Whether the cluster has the public halves of its keys."""
    return clusters.current(session).readers == tuple(map(proofs.public, logkeys.read(session)))


def ocb(settings: ZooKeeperSettings, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--zookeeper", settings.hosts, *words], prog_name="nodepool-ocb")


def test_a_new_cluster_has_one_key_and_its_public_half(zk_session: Session) -> None:
    assert len(logkeys.read(zk_session)) == 1
    assert match(zk_session)
    assert logkeys.renewal(zk_session, new=False) == []


def test_a_new_key_is_put_first_and_the_one_before_it_stays(zk_session: Session) -> None:
    found = [logkeys.read(zk_session)[0]]
    for _ in range(3):
        zk_session.commit(logkeys.renewal(zk_session, new=True))
        keys = logkeys.read(zk_session)
        assert keys[1:] == (found[-1],)
        assert match(zk_session)
        found.append(keys[0])
    assert len(set(found)) == 4


def test_a_cluster_of_before_gets_a_key_by_init_or_by_a_server(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    forget(zk_session)
    assert logkeys.read(zk_session) == ()
    logkeys.ensure(zk_session)
    assert match(zk_session)
    before = logkeys.read(zk_session)
    logkeys.ensure(zk_session)
    assert logkeys.read(zk_session) == before != ()
    found = zk_session.get(paths.LOG_KEY)
    assert found is not None
    zk_session.commit([Delete(paths.LOG_KEY, found.version)])
    made = ocb(zk_settings, "init")
    assert (made.exit_code, "it has a new key for logs" in made.stderr) == (0, True), made.output
    assert match(zk_session)
    assert "nothing changed" in ocb(zk_settings, "init").stderr


def test_a_key_that_cannot_be_read_is_replaced_on_demand_alone(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    zk_session._client.set(paths.LOG_KEY, b'{"schema":2}')
    with pytest.raises(Invalid, match="init --new-key"):
        logkeys.renewal(zk_session, new=False)
    assert ocb(zk_settings, "init", "--new-key").exit_code == 0
    assert match(zk_session)


def test_no_command_and_no_entry_of_the_journal_shows_a_key(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    said = []
    for words in (
        ("init", "--new-key", "--dry-run", "-o", "json"),
        ("init", "--new-key", "-o", "json"),
        ("record", "show", paths.LOG_KEY, "-o", "json"),
        ("history", "-o", "json"),
    ):
        answer = ocb(zk_settings, *words)
        assert answer.exit_code in (0, 10), answer.output
        said.append(answer.output)
    assert [each["kind"] for each in json.loads(said[0])["changes"]] == ["key for logs", "cluster"]
    assert json.loads(said[2])["data"] == "(secret)"
    assert "init" in said[3]
    said += [str(each) for each in Direct(zk_settings).perform(HistoryRead()).rows]
    for key in logkeys.read(zk_session):
        assert not [each for each in said if key in each]


def test_readers_are_those_of_the_newest_read_and_stay_while_zookeeper_is_away(
    zookeeper: Server, chroot: str, zk_session: Session, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(logkeys, "LOOK_SECONDS", 0.0)
    with (
        Proxy(int(zookeeper.hosts.rpartition(":")[2])) as proxy,
        Session(ZooKeeperSettings(hosts=f"{proxy.hosts}{chroot}", session_timeout_seconds=4.0)) as session,
    ):
        readers, unread = logkeys.Readers(session), logkeys.Readers(session)
        assert readers() == clusters.current(zk_session).readers
        zk_session.commit(logkeys.renewal(zk_session, new=True))
        session.sync()
        known = readers()
        assert known == clusters.current(zk_session).readers
        assert len(known) == 2
        proxy.cut()
        until(lambda: not session.trusted)
        assert readers() == known
        with pytest.raises(Unavailable):
            unread()
        proxy.heal()


def test_readers_are_read_at_most_one_time_a_second(zk_session: Session) -> None:
    readers = logkeys.Readers(zk_session)
    known = readers()
    zk_session.commit(logkeys.renewal(zk_session, new=True))
    assert readers() == known


def test_the_record_of_a_key_takes_no_other_text(zk_session: Session) -> None:
    def written(keys: Any) -> None:
        zk_session.commit([Create(f"{paths.KEYS}/other", LogKey(keys=keys))])

    with pytest.raises(Invalid):
        written(("short",))
    assert codec.encode(LogKey(keys=(proofs.new_key(),)))

"""Tokens that a server has read: they open requests without a read until ZooKeeper announces a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodepool_ocb.api.memory.tokens import NOTED_SECONDS, KeptTokens
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.records import Delete
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from nodepool_ocb.store import tokens as store
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import calm

Until = Callable[..., None]


class Memory(KeptTokens):
    """The memory of a server, with one token; ``announced`` has the ids of the events."""

    def __init__(self, session: Session, settings: ZooKeeperSettings) -> None:
        self.announced: list[str] = []
        super().__init__(session, self.announced.append)
        text = calm(settings).perform(TokenCreate(name="ann", seconds=3600.0)).answer.token
        assert text is not None
        found = tokens.split(text)
        assert found is not None
        self.id, self.secret = found

    @property
    def current(self) -> Token | None:
        """The token as it is known without a read."""
        return self.known(self.id, self.secret)


@pytest.fixture
def memory(zk_session: Session, zk_settings: ZooKeeperSettings) -> Iterator[Memory]:
    assert zk_session.connected
    with Session(zk_settings) as session:
        made = Memory(session, zk_settings)
        made.watch()
        yield made


def away(_session: Session, _id: str) -> None:
    raise Unavailable("ZooKeeper does not answer")


def test_a_token_that_was_read_opens_without_a_read_for_its_secret_alone(memory: Memory) -> None:
    assert memory.current is None
    read = memory.valid(memory.id, memory.secret)
    assert read is not None
    assert memory.current == read
    assert memory.known(memory.id, memory.secret[:-1] + "?") is None
    assert memory.known("0" * 12, memory.secret) is None


def test_a_token_that_another_host_revokes_opens_nothing_soon(
    memory: Memory, zk_settings: ZooKeeperSettings, until: Until
) -> None:
    memory.valid(memory.id, memory.secret)
    calm(zk_settings).perform(TokenRevoke(tokens=(memory.id,)))
    until(lambda: memory.current is None)
    assert memory.valid(memory.id, memory.secret) is None
    assert memory.id in memory.announced


def test_a_token_that_changed_during_its_read_is_read_again(
    memory: Memory, zk_session: Session, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.one

    def changed(session: Session, id: str) -> object:
        found = read(session, id)
        zk_session.commit([Delete(paths.token(id), -1)])
        until(lambda: memory.announced)
        return found

    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", changed)
    assert memory.valid(memory.id, memory.secret) is not None
    assert memory.current is None


def test_after_a_lost_connection_and_after_an_own_write_each_token_is_read_again(memory: Memory) -> None:
    memory.valid(memory.id, memory.secret)
    memory.doubt(())
    assert memory.current is None
    memory.valid(memory.id, memory.secret)
    assert memory.current is not None
    memory._session.connections += 1
    assert memory.current is None


@pytest.mark.parametrize(("written", "opens"), [(paths.token("0" * 12), True), (None, False)])
def test_while_zookeeper_is_away_a_token_opens_unless_it_was_written(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, written: str | None, opens: bool
) -> None:
    memory.valid(memory.id, memory.secret)
    memory.doubt([written or paths.token(memory.id)])

    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", away)
    if opens:
        assert memory.valid(memory.id, memory.secret) is not None
    else:
        with pytest.raises(Unavailable):
            memory.valid(memory.id, memory.secret)


def test_while_zookeeper_is_away_a_token_with_an_event_opens_nothing(
    memory: Memory, zk_settings: ZooKeeperSettings, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.valid(memory.id, memory.secret)
    calm(zk_settings).perform(TokenRevoke(tokens=(memory.id,)))
    until(lambda: memory.announced)

    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", away)
    with pytest.raises(Unavailable):
        memory.valid(memory.id, memory.secret)


def test_while_zookeeper_is_silent_no_token_opens_without_a_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.valid(memory.id, memory.secret)
    memory.note_use(memory.id)
    memory.valid(memory.id, memory.secret)
    used = memory._kept[memory.id].found.record.used
    assert used is not None
    monkeypatch.setattr(memory._session, "now", lambda: used + NOTED_SECONDS + 1.0)
    assert memory.use_due(memory.id)
    monkeypatch.setattr(Session, "trusted", False)
    assert memory.current is None
    assert not memory.use_due(memory.id)


def test_while_zookeeper_is_away_a_token_opens_for_a_short_time_alone(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.valid(memory.id, memory.secret)
    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", away)
    assert memory.valid(memory.id, memory.secret) is not None
    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.REMEMBERED_SECONDS", 0.0)
    with pytest.raises(Unavailable):
        memory.valid(memory.id, memory.secret)


def test_a_token_that_was_gone_at_its_last_read_opens_nothing_while_zookeeper_is_away(
    zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event has told of it: nothing is watched here."""
    memory = Memory(zk_session, zk_settings)
    memory.valid(memory.id, memory.secret)
    calm(zk_settings).perform(TokenRevoke(tokens=(memory.id,)))
    assert memory.valid(memory.id, memory.secret) is None
    assert memory.announced == []
    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", away)
    with pytest.raises(Unavailable):
        memory.valid(memory.id, memory.secret)


def test_tokens_are_remembered_in_a_bounded_number(
    memory: Memory, zk_session: Session, zk_settings: ZooKeeperSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Memory(zk_session, zk_settings)
    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.MOST_TOKENS", 1)
    assert memory.valid(memory.id, memory.secret) is not None
    assert memory.valid(other.id, other.secret) is not None
    assert memory.known(other.id, other.secret) is not None
    assert memory.current is None


@pytest.mark.parametrize("id", ["", "..", "a/b", "00000000002A", "000000000000\n"])
def test_a_text_that_is_no_id_is_no_path_of_a_read(memory: Memory, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", away)
    assert memory.valid(id, memory.secret) is None


def test_a_token_ends_at_its_time_without_an_event(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.valid(memory.id, memory.secret)
    now = memory._session.now()
    monkeypatch.setattr(memory._session, "now", lambda: now + 3601.0)
    assert memory.current is None


def test_the_last_use_is_written_once_in_some_minutes(
    memory: Memory, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not memory.use_due(memory.id)
    memory.valid(memory.id, memory.secret)
    assert memory.use_due(memory.id)
    memory.note_use(memory.id)
    until(lambda: memory.current is None)
    token = memory.valid(memory.id, memory.secret)
    assert token is not None
    assert token.used is not None
    assert not memory.use_due(memory.id)
    used = token.used
    monkeypatch.setattr(memory._session, "now", lambda: used + NOTED_SECONDS + 1.0)
    assert memory.use_due(memory.id)


def test_a_new_session_reads_each_token_again(memory: Memory) -> None:
    memory.valid(memory.id, memory.secret)
    assert memory.current is not None
    memory.watch()
    assert memory.current is None


def test_a_token_that_this_server_wrote_during_its_read_is_read_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.one

    def written(session: Session, id: str) -> object:
        found = read(session, id)
        memory.doubt([paths.token(id)])
        return found

    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.one", written)
    assert memory.valid(memory.id, memory.secret) is not None
    assert memory.current is None


def test_one_request_at_a_time_writes_the_last_use_and_a_failure_is_left_to_a_later_one(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[bool] = []

    def fails(*_: object) -> None:
        due.append(memory.use_due(memory.id))
        memory.note_use(memory.id)
        raise Unavailable("ZooKeeper does not answer")

    monkeypatch.setattr("nodepool_ocb.api.memory.tokens.stored_tokens.note_use", fails)
    memory.note_use(memory.id)
    assert due == [], "it was never read"
    memory.valid(memory.id, memory.secret)
    memory.note_use(memory.id)
    assert due == [False]
    assert memory.use_due(memory.id)

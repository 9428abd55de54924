"""Tokens against a real ZooKeeper, without a command line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.records import Create, Json
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.operation import Right
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.operations.tokens.reading import TokenList, TokenShow
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from nodepool_ocb.store import tokens as store
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import calm, faster_writer


def made(settings: ZooKeeperSettings, **fields: Any) -> tuple[str, str]:
    """The id and the text of a new token."""
    answer = calm(settings).perform(TokenCreate(**{"name": "ann", **fields})).answer
    assert answer.id is not None
    assert answer.token is not None
    return answer.id, answer.token


def test_a_token_opens_by_its_text_alone_and_its_secret_is_stored_nowhere(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    id, token = made(zk_settings, role=TokenRole.ADMIN, reveal=True)
    split = tokens.split(token)
    assert split is not None
    found = store.one(zk_session, id)
    assert found is not None
    record = found.record
    assert (split[0], record.name, record.role, record.reveal, record.by) == (id, "ann", "admin", True, "ann")
    assert record.valid(split[1], zk_session.now())
    assert not record.valid(split[1][:-1] + "?", zk_session.now())
    history = calm(zk_settings).perform(HistoryRead()).answer
    shown = msgspec.json.encode([calm(zk_settings).perform(TokenShow(token=id)).answer, history]).decode()
    znode = zk_session.get(paths.token(id))
    assert znode is not None
    assert split[1] not in znode.data.decode()
    assert split[1] not in shown
    assert record.digest not in shown
    assert id in shown


def test_a_token_ends_at_its_time(zk_session: Session, zk_settings: ZooKeeperSettings) -> None:
    id, token = made(zk_settings, seconds=60.0)
    found = store.one(zk_session, id)
    secret = tokens.split(token)
    assert found is not None
    assert secret is not None
    assert found.record.expires is not None
    assert found.record.valid(secret[1], found.record.expires - 1.0)
    assert not found.record.valid(secret[1], found.record.expires)


def test_a_dry_run_makes_no_token_and_shows_none(zk_session: Session, zk_settings: ZooKeeperSettings) -> None:
    performed = calm(zk_settings, dry_run=True).perform(TokenCreate(name="ann"))
    assert (performed.answer.token, [row.kind for row in performed.rows]) == (None, ["token"])
    assert not zk_session.children(paths.TOKENS)


def test_the_list_has_limits_and_last_use_and_names_unreadable_records(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    id, _ = made(zk_settings, name="ben", deployments=("system",), selector="tag:web", role=TokenRole.OPERATOR)
    other, _ = made(zk_settings)
    found = store.one(zk_session, id)
    assert found is not None
    store.note_use(zk_session, id, found, 1764200000.0)
    store.note_use(zk_session, id, found, 1764200001.0)  # with the version of before: another server was faster
    broken: Json = {"schema": 1, "role": "king"}

    zk_session.commit([Create(paths.token("0" * 12), broken)])
    mine = calm(zk_settings)
    rows = mine.perform(TokenList()).answer
    assert [(row.id, row.used) for row in rows] == [(other, None), (id, 1764200000.0)]
    assert (rows[1].deployments, rows[1].selector) == (("system",), "tag:web")
    (warning,) = mine.heard.notes
    assert warning.startswith(f"warning: this token opens nothing: {paths.token('0' * 12)}")
    with pytest.raises(Conflict, match="record show"):
        calm(zk_settings).perform(TokenRevoke(tokens=("0" * 12,)))


def test_a_revoked_token_is_gone_also_if_its_use_is_noted_meanwhile(
    zk_session: Session, zk_settings: ZooKeeperSettings
) -> None:
    id, _ = made(zk_settings)
    found = store.one(zk_session, id)
    assert found is not None
    with faster_writer(lambda: store.note_use(zk_session, id, found, 5.0)) as acted:
        performed = calm(zk_settings).perform(TokenRevoke(tokens=(id, id)))
    assert (acted, [row.change for row in performed.rows]) == ([1], ["delete"])
    assert store.one(zk_session, id) is None
    with pytest.raises(NotFound, match=f"token {id} does not exist"):
        calm(zk_settings).perform(TokenRevoke(tokens=(id,)))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "ann b"}, "is no name of a token"),
        ({"name": ""}, "is no name of a token"),
        ({"name": "a" * 129}, "is no name of a token"),
        ({"selector": "tag:"}, "a value of tag: is missing"),
        ({"seconds": 0.0}, "is in the past"),
        ({"role": TokenRole.NODE}, "needs limits"),
        ({"role": TokenRole.BOOT, "selector": "tag:web"}, "made by an installation alone"),
        ({"role": TokenRole.JOIN, "selector": "tag:web"}, "give --deployment instead"),
        ({"role": TokenRole.JOIN, "reveal": True}, "reveals no secrets"),
        ({"role": TokenRole.REGISTER, "selector": "tag:web"}, "give --deployment instead"),
    ],
)
def test_a_token_that_could_open_nothing_is_refused(
    zk_session: Session, zk_settings: ZooKeeperSettings, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Invalid, match=sentence):
        made(zk_settings, **fields)
    with pytest.raises(NotFound, match="deployment lab does not exist"):
        made(zk_settings, deployments=("lab",))
    assert not zk_session.children(paths.TOKENS)


def test_each_role_of_people_is_a_right_of_the_table_of_operations() -> None:

    assert {str(each) for each in TokenRole} == {*map(str, Right), "join", "register", "node", "boot"}
    assert Token(name="a", role=TokenRole.VIEWER, digest="0" * 64).limited is False

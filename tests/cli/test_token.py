"""``token``: the printed token opens, is shown one time, and the list has no secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.model import tokens
from nodepool_ocb.model.records import Json
from nodepool_ocb.store import tokens as store
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.views.times import shown
from tests.fixtures.commands import Ocb


def test_the_first_token_of_a_cluster_is_made_on_zookeeper_and_printed_alone(ocb: Ocb, zk_session: Session) -> None:
    result = ocb("token", "create", "--admin", "--expires", "30d")
    assert result.exit_code == 0
    split = tokens.split(result.stdout.strip())
    assert split is not None
    assert result.stderr == f"token {split[0]}; it is shown this one time\n"
    found = store.one(zk_session, split[0])
    assert found is not None
    assert found.record.role == "admin"
    assert found.record.valid(split[1], zk_session.now())
    assert found.record.expires == pytest.approx(found.record.created + 30 * 86400)


def test_tokens_are_listed_shown_and_revoked(ocb: Ocb, ask: Callable[..., Json]) -> None:
    made = ask("token", "create", "ann", "--role", "operator", "--deployment", "system", "-l", "tag:web", "--reveal")
    (row,) = ask("token", "list")
    assert (row["id"], row["name"], row["role"], row["used"]) == (made["id"], "ann", "operator", None)
    assert ask("token", "show", made["id"]) == row
    listed = ocb("token", "list").stdout
    assert made["token"].rpartition("_")[2] not in listed
    assert shown(row["created"]) in listed
    assert shown(row["created"]) in ocb("token", "show", made["id"]).stdout
    dry = ocb("token", "revoke", made["id"], "--dry-run")
    assert (dry.exit_code, len(ask("token", "list"))) == (10, 1)
    assert ask("token", "revoke", made["id"])["changes"][0]["kind"] == "token"
    assert ask("token", "list") == []
    assert ocb("token", "show", made["id"]).exit_code == 3


def test_a_contradiction_of_roles_is_a_wrong_usage(ocb: Ocb) -> None:
    assert ocb("token", "create", "--admin", "--role", "viewer").exit_code == 2

"""A worker asks the turn for something while a turn is under way: its question is answered, and not lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nodepool_ocb.engine.enrolling import Enrolment
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node
from nodepool_ocb.store.client.session import Session
from nodepool_ocb_launcher.roster import Roster

FQDN = "n1.example.com"
LAUNCH = "0000000001-5f"


@pytest.fixture
def roster(zk_session: Session) -> Iterator[Roster]:
    """It has created a node."""
    found = Roster(zk_session, lambda: None)
    found.enrol(Enrolment(fqdn=FQDN, launch=LAUNCH, node=Node(addresses=("127.0.0.1",))))
    found.answer("example.com", needed=True)
    return found


def test_a_node_that_a_worker_dismisses_during_a_turn_is_not_taken_for_gone(
    roster: Roster, zk_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Roster._look

    def look(self: Roster, *arguments: Any) -> Any:
        if not self._leaving:
            assert self.dismiss(FQDN, LAUNCH) is not None
        return before(self, *arguments)

    monkeypatch.setattr(Roster, "_look", look)
    roster.answer("example.com", needed=True)
    assert zk_session.get(paths.node(FQDN)) is not None
    assert roster.dismiss(FQDN, LAUNCH) is not None
    roster.answer("example.com", needed=True)
    assert zk_session.get(paths.node(FQDN)) is None
    assert roster.dismiss(FQDN, LAUNCH) is None

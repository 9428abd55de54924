"""The token of a boot at a server that shows older records: the machine would end its boot where the token is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.api.daemon import ApiRecords
from nodepool_ocb.config import ApiSettings, Settings, ZooKeeperSettings
from nodepool_ocb.errors import TimedOut, Unavailable
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.installation import Installation, InstallPurpose
from nodepool_ocb.model.records import Change, Create, Fence, Node, NodeRole, Role, State
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session

FQDN: Final = "n1.example.com"
ID: Final = "0123456789ab"
SECRET: Final = "s" * 43


class Lagging(ApiRecords):
    """They are refreshed by a wish alone, never by an event."""

    def __init__(self, session: Session, settings: Settings) -> None:
        super().__init__(session, settings, lambda: None)
        self.turns = 0
        self.stop = threading.Event()

    def serve(self) -> None:
        """Take turns until the stop, as the turn thread does."""
        while not self.stop.wait(0.01):
            if self._wishes > self._granted:
                self.turns += 1
                self.refresh()


@pytest.fixture
def records(zk_settings: ZooKeeperSettings) -> Iterator[Lagging]:
    with Session(zk_settings) as session:
        clusters.bootstrap(session)
        made = Lagging(session, Settings(zookeeper=zk_settings, api=ApiSettings(deadline_seconds=20.0)))
        made.load()
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        yield made
        made.stop.set()
        thread.join(10.0)


def installation() -> list[Change]:
    now = time.time()
    made = Installation(
        purpose=InstallPurpose.INSTALL, noderole=f"os@{FQDN}", generation=1, run="r1", epoch=7, since=now, started=now,
        deadline=now + 60.0, image="debian", checksum="sha256:00", boot_id="before", nonce="0" * 32, token=ID,
        token_digest=tokens.digest(SECRET),
    )  # fmt: skip
    record = NodeRole(state=State.TRANSITION, since=now, generation=1, run="r1", epoch=7)
    return [
        Create(paths.role("os"), Role(barclamp="p", jig="install")),
        Create(paths.node(FQDN), Node(alive=True)),
        Create(paths.fence(FQDN), Fence()),
        Create(paths.noderoles(FQDN)),
        Create(paths.noderole("os", FQDN), record),
        Create(paths.installation(FQDN), made),
    ]


def test_a_server_that_shows_older_records_catches_up_before_it_refuses_a_token(
    records: Lagging, zk_session: Session
) -> None:
    zk_session.commit(installation())
    found = records.valid_token(ID, SECRET)
    assert found is not None
    assert (found.role, found.selector) == (TokenRole.BOOT, f"name:{FQDN}")
    assert records.valid_token(ID, "another") is None
    assert records.turns == 1


def test_an_unknown_token_is_refused_by_records_that_are_new_enough(records: Lagging) -> None:
    assert records.valid_token(ID, SECRET) is None
    assert records.turns == 1


def test_a_text_that_is_no_id_and_the_wrong_secret_of_a_known_token_cost_no_turn(
    records: Lagging, zk_session: Session
) -> None:
    zk_session.ensure(paths.TOKENS)
    zk_session.commit([Create(paths.token(ID), Token(name="ann", role=TokenRole.ADMIN, digest=tokens.digest(SECRET)))])
    assert records.valid_token("?", SECRET) is None
    assert records.valid_token(ID, "another") is None
    assert records.turns == 0


def test_a_server_that_cannot_catch_up_does_not_refuse_a_token(
    records: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.stop.set()
    records.settings = replace(records.settings, api=ApiSettings(deadline_seconds=0.2))
    with pytest.raises(TimedOut):
        records.valid_token(ID, SECRET)
    monkeypatch.setattr(Session, "trusted", False)
    with pytest.raises(Unavailable):
        records.valid_token(ID, SECRET)

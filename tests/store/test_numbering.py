"""Numbers that go on above those that came from elsewhere."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.sequence import FARTHEST, raise_beyond

PARENT = "/ocb/numbers"


@pytest.mark.parametrize("number", [0, 1, 2, 199, 200, 201, 1234])
def test_what_is_made_next_has_a_higher_number(zk_session: Session, number: int) -> None:
    zk_session.ensure(PARENT)
    for _ in range(2):
        raise_beyond(zk_session, PARENT, number)
        assert zk_session.children(PARENT) == []
    assert number < int(zk_session.create_next(f"{PARENT}/", None)[-10:]) < number + 10


def test_a_number_that_is_out_of_reach_is_refused(zk_session: Session) -> None:
    zk_session.ensure(PARENT)
    with pytest.raises(Invalid, match="above those that were given"):
        raise_beyond(zk_session, PARENT, FARTHEST + 10)
    assert zk_session.children(PARENT) == []

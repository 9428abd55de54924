"""Decisions of a person about a rollout, written as the verbs of the command line write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodepool_ocb.config import Settings
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations.operation import Call, Situation
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.rollouts.directing import _Resuming
from nodepool_ocb.rollout.records import Decision, Rollout
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import ListeningCaller

Ask = Callable[[Rollout], Sequence[Decision]]


class Steer(_Resuming, frozen=True, kw_only=True):
    """The decisions of ``ask``."""

    verb = "steer"

    ask: Ask

    def decisions(self, rollout: Rollout, key: Key, situation: Situation) -> Sequence[Decision]:  # noqa: ARG002
        return self.ask(rollout)


def steer(session: Session, deployment: str, identity: str, ask: Ask) -> Rollout:
    """Write the decisions of ``ask`` (rollout.commands) about a rollout as it is; gives the rollout after them."""
    used = Performer(Call(login="ann", host="desk"), ListeningCaller(), Settings)
    used.perform(Steer(rollout=f"{deployment}/{identity}", ask=ask), session)
    found = rollouts.read(session, deployment, identity)
    assert found is not None
    return found[0]

"""One hook that is to be run: what its thread does, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.model.records import Change, DeploymentRole, Node, NodeRole
from nodepool_ocb.store.client.session import Znode


class Done(msgspec.Struct):
    """What hooks want, and what is needed to write it."""

    hooked: list[Hooked]
    error: str | None
    systems: dict[str, Znode | None]  # the system attributes of the noderoles that they want to change
    going: list[Znode] = []


class Job(NamedTuple):
    """``work`` runs the hook, in a thread: None to try again later. ``write`` says what comes of it, on the turn thread.

    ``shown`` is the record that the hook is run for.
    """

    work: Callable[[], Done | None]
    write: Callable[[Done], list[Change]]
    shown: DeploymentRole | Node | NodeRole

"""One hook that must run: the work of its thread, and the write of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from nodepool_ocb.catalogue.code import Hooked
from nodepool_ocb.model.records import Change, DeploymentRole, Node, NodeRole
from nodepool_ocb.store.client.session import Znode


class Done(msgspec.Struct):
    """The changes of hooks, and the data for their write."""

    hooked: list[Hooked]
    error: str | None
    systems: dict[str, Znode | None]  # the system attributes of the noderoles that they want to change
    going: list[Znode] = []


class Job(NamedTuple):
    """``work`` runs the hook, in a thread: None to try again later. ``write`` returns its
    transaction, on the turn thread.

    ``shown`` is the record of the hook's subject.
    """

    work: Callable[[], Done | None]
    write: Callable[[Done], list[Change]]
    shown: DeploymentRole | Node | NodeRole

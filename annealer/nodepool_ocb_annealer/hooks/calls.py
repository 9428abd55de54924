"""Calls of hooks, in threads: the code of a role is called, timed, and what it raises is an answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

from nodepool_ocb.catalogue.code import Hooked, find
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.errors import NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Check, Create, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Znode
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 0.05


def on_transition(session: Session, grant: Grant, barclamp: str) -> Exception | None:
    """Run the hook of a noderole that was just claimed, before its jig; gives what it raised.

    Only ``set_system`` has an effect: the jig sees it. Call it in a slot's thread. Raises what session.commit() raises.
    """
    vertex = grant.vertex
    if find(vertex.role, barclamp) is None:
        return NotFound("the code of its role is not installed on the annealer's host")
    hooked = Hooked(vertex.name, vertex.node.record, grant.record, codec.attributes(system(session, vertex.name)))
    error = call(vertex.role, barclamp, "on_transition", hooked)
    wanted = hooked.set_system.get(vertex.name)
    if error is None and wanted:
        znode = system(session, vertex.name)
        path = paths.system(vertex.role, vertex.node.name)
        merged = attributes.merge(codec.attributes(znode), wanted)
        write = Set(path, merged, znode.version) if znode else Create(path, merged)
        session.commit([Check(paths.fence(grant.fqdn), grant.fence), write])
    return error


def call(role: str, barclamp: str, hook: str, hooked: Hooked) -> Exception | None:
    """Run one hook, timed; gives what it raised."""
    started = time.monotonic()
    try:
        getattr(find(role, barclamp), hook)(hooked)
    except Exception as error:
        log.exception("%s of role %s for %s", hook, role, hooked.subject)
        metrics.HOOK_FAILURES.labels(hook).inc()
        return error
    finally:
        took = time.monotonic() - started
        metrics.HOOK_SECONDS.labels(hook).observe(took)
        if took > SLOW_SECONDS:
            log.warning(
                "%s of role %s for %s took %.0f ms; hooks are to be fast", hook, role, hooked.subject, took * 1e3
            )
    return None


def system(session: Session, noderole: str) -> Znode | None:
    return session.get(paths.system(*paths.split_noderole(noderole)))


def systems(session: Session, hooked: Hooked) -> dict[str, Znode | None]:
    """Raises Spoiled where what it wants to change cannot be read."""
    names: Iterable[str] = hooked.set_system
    systems = {name: system(session, name) for name in names}
    for znode in systems.values():
        codec.attributes(znode)
    return systems

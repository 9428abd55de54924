"""Calls of hooks, in threads: the code of a role is called and timed, and its exception is an answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked, find, methods
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.claim import Grant
from nodepool_ocb.engine.hooks.node import UNNOTICED
from nodepool_ocb.engine.marks import WORD
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Check, Create, Node, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session, Znode
from nodepool_ocb.telemetry import metrics

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 0.05

#: The fields of a node that a hook may set; with ``alive`` also the reason and the duration.
KEYED: Final = frozenset({"labels", "hints"})  # fields of a node of which each key is a field of its own
SETTABLE: Final = {*Node.__struct_fields__} - UNNOTICED | {*WORD}


def on_transition(session: Session, grant: Grant, barclamp: str) -> Exception | None:
    """Run the hook of a noderole that was just claimed, before its jig; returns its exception.

    Only ``set_system`` has an effect: the jig sees it. Call it in a slot's thread. Raises the errors of session.commit().
    """
    vertex = grant.vertex
    blob = codec.attributes(system(session, vertex.name))
    hooked = Hooked(vertex.name, vertex.node.record, record=grant.record, attributes=blob, role=vertex.role)
    error = call(barclamp, "on_transition", hooked)
    wanted = hooked.set_system.get(vertex.name)
    if error is None and wanted:
        znode = system(session, vertex.name)
        path = paths.system(vertex.role, vertex.node.name)
        merged = attributes.merge(codec.attributes(znode), wanted)
        write = Set(path, merged, znode.version) if znode else Create(path, merged)
        session.commit([Check(paths.fence(grant.fqdn), grant.fence), write])
    return error


def call(barclamp: str, hook: str, hooked: Hooked) -> Exception | None:
    """Run one hook of ``hooked.role``, timed; returns its exception, or Invalid if it sets an impossible value of a node."""
    started, role = time.monotonic(), hooked.role
    try:
        code = find(role, barclamp)
        if code is None:
            raise NotFound("the code of its role is not installed on the annealer's host; install its package there")
        for name in methods(type(code), hook):
            getattr(code, name)(hooked)
        _check(hooked)
    except Exception as error:
        log.exception("%s of role %s for %s", hook, role, hooked.subject)
        metrics.HOOK_FAILURES.labels(hook).inc()
        return error
    finally:
        took = time.monotonic() - started
        metrics.HOOK_SECONDS.labels(hook).observe(took)
        if took > SLOW_SECONDS:
            log.warning(
                "%s of role %s for %s took %.0f ms; a hook should take less than that",
                hook,
                role,
                hooked.subject,
                took * 1e3,
            )
    return None


def _without_none(value: Any) -> Any:
    """The keys that are set; one that is None goes (wishes)."""
    if not isinstance(value, Mapping):
        return value
    return {key: each for key, each in value.items() if each is not None}


def _check(hooked: Hooked) -> None:
    """Raises Invalid for a value that a node cannot have; values are as in a record: a tuple, no list."""
    kept = sorted({*hooked.set_node} - SETTABLE)
    if kept:
        raise Invalid(f"a hook cannot set {', '.join(kept)} of a node; it can set {', '.join(sorted(SETTABLE))}")
    if hooked.set_node and hooked.node is not None:
        try:
            given = {name: value for name, value in hooked.set_node.items() if name in Node.__struct_fields__}
            fields = {name: _without_none(value) if name in KEYED else value for name, value in given.items()}
            node = msgspec.convert(msgspec.to_builtins(replace(hooked.node, **fields)), Node)
        except (msgspec.ValidationError, TypeError) as wrong:
            raise Invalid(f"a hook cannot set this of a node: {wrong}; correct the code of the hook") from None
        gone = {name: dict.fromkeys(given[name].keys() - fields[name].keys()) for name in KEYED & given.keys()}
        hooked.set_node.update({name: getattr(node, name) for name in fields})
        hooked.set_node.update({name: {**getattr(node, name), **none} for name, none in gone.items()})


def system(session: Session, noderole: str) -> Znode | None:
    return session.get(paths.system(*paths.split_noderole(noderole)))


def systems(session: Session, hooked: Hooked) -> dict[str, Znode | None]:
    """Raises Spoiled if the blob that it changes cannot be read."""
    names: Iterable[str] = hooked.set_system
    systems = {name: system(session, name) for name in names}
    for znode in systems.values():
        codec.attributes(znode)
    return systems

"""How commands reach ZooKeeper: read the world, decide, write; and decide again if somebody was faster.

The store is imported when a command needs it, and not before.
"""

from __future__ import annotations

import getpass
import logging
import random
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit.options import asked
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Check, Create, Delete, Gate, Json, Raise, Record

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
    from nodepool_ocb.store.client.session import Session

CONNECT_SECONDS: Final = 7.0  # a command without ZooKeeper ends within ten, also on a busy machine
REFUSED_SECONDS: Final = 1.0  # a server that restarts may be back by then
ATTEMPTS: Final = 40  # each loses to somebody whose change was written, so many people get on side by side
LONGEST_PAUSE_SECONDS: Final = 1.0

Decide = Callable[["Session", World], Iterable[Sequence[Change]]]


def settings(ctx: click.Context | None = None) -> Settings:
    """The configuration, with ``--zookeeper`` in its place; raises Invalid."""
    from nodepool_ocb import config

    loaded = config.load(asked("config", ctx))
    hosts = asked("zookeeper", ctx)
    return replace(loaded, zookeeper=replace(loaded.zookeeper, hosts=hosts)) if hosts else loaded


@contextmanager
def session(
    ctx: click.Context | None = None,
    timeout_seconds: float = CONNECT_SECONDS,
    on_connected: Callable[[], None] | None = None,
    founding: bool = False,
) -> Iterator[Session]:
    """A session that is closed at the end; raises Unavailable, Denied, Invalid, or NoCluster unless it is ``founding``."""
    from nodepool_ocb.store import clusters
    from nodepool_ocb.store.client.session import Session

    for library in ("kazoo", "nodepool_ocb.store"):  # what matters comes to us as exceptions
        logging.getLogger(library).setLevel(logging.CRITICAL)
    made = Session(settings(ctx).zookeeper, on_connected=on_connected)
    made.start(timeout_seconds, refused_seconds=REFUSED_SECONDS)
    try:
        if not founding:
            clusters.current(made)
        yield made
    finally:
        made.close()


def load(opened: Session) -> World:
    """Everything as it is now, and no older than this call; says on stderr what cannot be read."""
    from nodepool_ocb.cli.kit.output import say
    from nodepool_ocb.store import tree

    opened.sync()
    world = tree.load(opened)
    for reason in world.unreadable.values():
        say(f"warning: this record cannot be read: {reason}")
    return world


def world() -> World:
    """Everything as it is now, for commands that only read."""
    with session() as opened:
        return load(opened)


def me() -> str:
    """Who is noted as the cause of a change."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def on_this_host(host: str) -> bool:
    """Whether a daemon that calls its host so is on this one."""
    return host in (socket.gethostname(), socket.getfqdn())


def change(opened: Session, decide: Decide, dry_run: bool = False) -> list[Change]:
    """Write what ``decide`` gives, transaction by transaction; gives all changes.

    Where somebody changed the same things meanwhile it reads and decides again, after a pause that grows and differs from
    theirs; raises Stale after ``ATTEMPTS``.
    """
    return decided(opened, lambda: decide(opened, load(opened)), dry_run)


def decided(opened: Session, decide: Callable[[], Iterable[Sequence[Change]]], dry_run: bool = False) -> list[Change]:
    """As ``change``, for decisions that read for themselves."""
    changes: list[Change] = []
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for transaction in decide():
                assert not structure.forgotten(transaction), "what comes or goes raises the structure"
                if not dry_run:
                    opened.commit(transaction)
                changes += transaction
        except Stale as stale:
            if attempt == ATTEMPTS:
                raise Stale(f"others keep changing the same things ({stale}); try again", stale.path) from stale
            time.sleep(random.uniform(0, min(LONGEST_PAUSE_SECONDS, 0.01 * 2**attempt)))
        else:
            break
    return changes


def parts(changes: Iterable[Change]) -> Iterator[Sequence[Change]]:
    """Independent changes, in transactions that ZooKeeper takes."""
    return limits.parts(limits.singly(changes))


# -- telling what was changed --


def report(changes: Sequence[Change], dry_run: bool = False, explanations: Sequence[str] = (), **more: Json) -> None:
    """Print what was, or would be, changed: one document. A dry run that found any exits with 10."""
    from nodepool_ocb.cli.kit import output

    rows = change_rows(changes)
    document = {"dry_run": dry_run, "changes": rows, "explanations": list(explanations), **more}
    if output.chosen() == "name":
        output.things(rows, ("name",))
    elif output.chosen() != "table":
        output.thing(document, "")
    elif rows:
        for explanation in explanations if dry_run else ():
            output.say(explanation)
        output.things(rows, ("change", "kind", "name", "state"))
    if not rows:
        output.say("nothing to do")
    if dry_run and rows:
        raise click.exceptions.Exit(10)


def change_rows(changes: Iterable[Change]) -> list[dict[str, Json]]:
    """Changes as people name them."""
    return [row for change in changes if (row := _row(change)) is not None]


def _owner(path: str) -> str:
    """Whose attributes stand at a path.

    >>> _owner("/ocb/nodes/n1.example.com/noderoles/ntp-client/user")
    'ntp-client@n1.example.com (user)'
    """
    match path.split("/")[2:]:
        case ["nodes", fqdn, "noderoles", role, layer]:
            return f"{paths.noderole_name(role, fqdn)} ({layer})"
    return path.removeprefix(paths.ROOT + "/")


def _of_image(path: str) -> tuple[str, str] | None:
    """What stands at a path below an image: its kind and its name.

    >>> _of_image("/nodepool/image/jammy/builds/0000000007/provider/west/images/0000000001")
    ('upload', 'jammy-0000000007 west 0000000001')
    """
    match path.removeprefix(paths.IMAGES + "/").split("/"):
        case [image, "request-build"]:
            return "build request", image
        case [image, "pause"]:
            return "pause", image
        case [image, "builds", build]:
            return "build", f"{image}-{build}"
        case [image, "builds", build, "provider", provider, "images", upload]:
            return "upload", f"{image}-{build} {provider} {upload}"
    return None


def _row(change: Change) -> dict[str, Json] | None:
    """A change as people name it; None for what only keeps order (checks, fences, gates, the structure, empty znodes)."""
    from nodepool_ocb.store.worldpaths import parse

    data = None if isinstance(change, Check | Delete) else change.data
    verb = {"Create": "create", "Delete": "delete"}.get(type(change).__name__, "change")
    state = getattr(data, "state", None) if isinstance(data, Record) else None
    of_image = _of_image(change.path) if change.path.startswith(paths.IMAGES + "/") else None
    if of_image is not None and not isinstance(change, Check):
        return {
            "change": verb,
            "kind": of_image[0],
            "name": of_image[1],
            "state": None if state is None else str(state),
        }
    what = parse(change.path)
    if isinstance(change, Check | Raise) or (what is None and data is None) or isinstance(data, Gate):
        return None
    if what is None:
        return {"change": verb, "kind": "attributes", "name": _owner(change.path), "state": None}
    kind = what.kind.__name__
    if kind == "Structure" or (kind in ("Fence", "Claim") and isinstance(change, Create | Delete)):
        return None
    names = {"NodeRole": f"{what.below}@{what.name}", "DeploymentRole": f"{what.below} in {what.name}"}
    return {
        "change": verb,
        "kind": {"NodeRole": "noderole", "DeploymentRole": "deployment role"}.get(kind, kind.lower()),
        "name": names.get(kind, what.name),
        "state": None if state is None else str(state),
    }

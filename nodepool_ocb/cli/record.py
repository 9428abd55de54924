"""``nodepool-ocb record``: what is at a path of ZooKeeper, as it is; and away with what cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from nodepool_ocb.cli import deleting
from nodepool_ocb.cli.kit import journal, output, session
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents.counting import some
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Delete, Run, Set
from nodepool_ocb.operations.records.reading import RecordList, RecordShow
from nodepool_ocb.telemetry.visible import line
from nodepool_ocb.views.cluster import Deleted, excerpt

if TYPE_CHECKING:
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session

NAMED: Final = 20  # znodes that are named before they go
_PATH: Final = re.compile(r"(/ocb|/nodepool/image|/nodepool/daemons)(/[^/\x00]+)*")


@click.group(cls=Noun)
def command() -> None:
    """Single records in ZooKeeper: look at one as it is, delete one that cannot be read."""


@command.command("list", operation=RecordList)
def list_() -> None:
    """Every record that cannot be read, of all kinds, attributes and runs included: it reads the whole tree."""
    output.things(perform(RecordList()).answer, ("path", "reason"), key="path")


@command.command(operation=RecordShow)
@click.argument("path")
def show(path: str) -> None:
    """What is at a path, byte by byte: control characters are written as \\x1b, and why it cannot be read is said."""
    document = perform(RecordShow(path=path)).answer
    output.thing(document, path, output.fields(document, but=("data",)), "", output.verbatim([excerpt(document)]))


@command.command(writes=True)
@click.argument("path")
@click.option("--force", is_flag=True, help="Also what can be read.")
@yes_option
@dry_run_option
def delete(path: str, force: bool, yes: bool, dry_run: bool) -> None:
    """Delete a record that cannot be read, with all below it; refused while somebody works there or depends on it."""
    from nodepool_ocb.store.world.load import load_world

    with session.session() as opened:
        znodes = _judged(opened, session.load(opened), path, force)
        names = [line(znode.path) for znode in reversed(znodes)]
        if dry_run:
            session.report_rows(journal.named("delete", "record", names), dry_run)
        confirm(f"delete {some(names, NAMED)}, for good", yes)
        asked = {znode.path: znode.mzxid for znode in znodes}

        def decide() -> list[Sequence[Change]]:
            opened.sync()
            world = load_world(opened)  # what cannot be read was said with the first look
            now = _judged(opened, world, path, force)
            if {znode.path: znode.mzxid for znode in now} != asked:
                raise Conflict(f"{line(path)} or what is below it was changed meanwhile; look at it again")
            return _transactions(world, path, now)

        journal.named("delete", "record", names)
        for transaction in decide():
            opened.commit(transaction)
    output.things([Deleted(path=name) for name in names], ("change", "path"), key="path")


def _there(opened: Session, path: str) -> Znode:
    """Raises NotFound, or UsageError for what is no path of ours."""
    if not _PATH.fullmatch(path):
        raise click.UsageError("a path begins with /ocb, /nodepool/image or /nodepool/daemons, without the chroot")
    from nodepool_ocb.store import clusters

    znode = opened.get(path)
    if znode is None:
        if opened.get(paths.CLUSTER) is None:
            clusters.current(opened)  # raises NoCluster: the place is wrong, not the path
        raise NotFound(f"nothing is at {line(path)}; nodepool-ocb status names what cannot be read")
    return znode


def _judged(opened: Session, world: World, path: str, force: bool) -> list[Znode]:
    """What would go, leaves first; raises Conflict where it may not."""
    from nodepool_ocb.store import quarantine
    from nodepool_ocb.store.subtree import subtree

    znode = _there(opened, path)
    why = quarantine.problem(znode) or (quarantine.of_rollouts(opened) | quarantine.of_task_runs(opened)).get(path)
    deleting.refuse(world, path, why, force)
    znodes = subtree(opened, path)
    held = [each.path for each in znodes if each.ephemeral_owner and each.path != path]
    held += [f"{lock}/{name}" for lock in _locks(opened, path) for name in opened.children(lock) or ()]
    if held:
        raise Conflict(f"somebody holds {line(held[0])}; wait until that has ended")
    return znodes


def _locks(opened: Session, path: str) -> list[str]:
    """The lock that whoever works on it holds, where that is not below it; of the builds of an image, it is the newest's."""
    match path.split("/")[2:]:
        case ["rollouts", deployment, identity, "groups" | "nodes", _]:
            return [paths.rollout_lock(deployment, identity)]
        case ["tasks", "runs", deployment, identity, part, _] if part != "lock":
            return [paths.task_run_lock(deployment, identity)]
        case ["image", image, "builds", build] if build == max(
            set(opened.children(paths.builds(image)) or ()) - {"lock"}
        ):
            return [paths.build_lock(image)]
        case ["image", image, "builds", build, "provider", provider, "images", upload] if upload != "lock":
            return [paths.upload_lock(image, build, provider)]
    return []


def _number(path: str) -> int | None:
    """Of a rollout, or a run of tasks.

    >>> _number("/ocb/rollouts/lab/0000000007"), _number("/ocb/journal/entries/0000000007")
    (7, None)
    """
    match path.split("/")[2:]:
        case ["rollouts", _, name] | ["tasks", "runs", _, name] if name.isdecimal() and len(name) == 10:
            return int(name)
    return None


def _transactions(world: World, path: str, znodes: Sequence[Znode]) -> list[Sequence[Change]]:
    """All of it, leaves first; each part raises the structure, so that whoever decided with what goes is refused."""
    from nodepool_ocb.engine import structure
    from nodepool_ocb.store import quarantine
    from nodepool_ocb.store.client import codec

    goes: list[Change] = [Delete(znode.path, znode.version) for znode in znodes]
    if not path.startswith(paths.ROOT + "/"):
        return list(limits.parts(limits.singly(goes)))
    runs = []
    for znode in znodes:
        if quarantine.kind(znode.path) is Run:
            try:
                runs.append(codec.decode(Run, znode))
            except Invalid:
                continue
    numbers = [number for znode in znodes if (number := _number(znode.path)) is not None]
    before = structure.stored(world)
    after = deleting.raised(world, before.record, {z.path: z.version for z in znodes}, runs, numbers)
    own = Set(paths.STRUCTURE, after, before.version)
    parts = limits.parts(limits.singly(goes), beside=(own,))
    return [[replace(own, version=before.version + number), *part] for number, part in enumerate(parts)]

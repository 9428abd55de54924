"""``nodepool-ocb secret``: keys, where secrets stand, and their way from one key to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import output, sealing, session
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.inputs.layers import BLOBS
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Spoiled
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.records import Change, Json, Set
from nodepool_ocb.views import cluster as shown

if TYPE_CHECKING:
    from nodepool_ocb.secrecy.keyring import Keyring
    from nodepool_ocb.store.client.session import Session

Owned = tuple[str, Json]  # whose attributes, and what they are


@click.group(cls=Noun)
def command() -> None:
    """Secret attributes: make keys, see where which is used, go over to a new one."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def keygen(file: Path) -> None:
    """Make a key and put it first in FILE, which is made with mode 0600 where it is not there.

    The first key encrypts, all decrypt. Bring FILE to every host that needs it before `secret rotate`.
    """
    from nodepool_ocb.secrecy import keyring

    made = keyring.generate(file)
    keys = keyring.load(str(file)).ids
    output.thing(shown.MadeKey(key=made, file=str(file), keys=keys), made)


@command.command("list")
def list_() -> None:
    """Every secret: whose attribute it is, and which key opens it or what it refers to. Values are never shown."""
    with session.session() as opened:
        rows = shown.secrets(_owners(opened, session.load(opened)), sealing.secrets().keys().ids)
    output.things(rows, ("name", "attribute", "kind", "key", "state", "reference"))


@command.command(writes=True)
@dry_run_option
def rotate(dry_run: bool) -> None:
    """Encrypt anew, by the first key of the file, what older keys encrypted; then these may go.

    Nothing is outdated by it. It may be stopped and repeated, and ends with 1 where something cannot be opened.
    """
    left: dict[str, str] = {}

    def decide(opened: Session, world: World) -> Iterator[Sequence[Change]]:
        keys = sealing.secrets().keys()
        if not keys.ids:
            raise Conflict("there is no key here: set secrets.key_file; nodepool-ocb secret keygen FILE makes one")
        left.clear()
        yield from session.parts(_anew(opened, world, keys, left))

    with session.session() as opened:
        changes = session.change(opened, decide, dry_run)
    for name, why in left.items():
        output.say(f"{name}: {why}")
    if left:
        session.report(changes)
        raise Conflict(f"{counted(len(left), 'secret')} cannot be encrypted anew; keep the older keys")
    session.report(changes, dry_run)


def _anew(opened: Session, world: World, keys: Keyring, left: dict[str, str]) -> Iterator[Change]:
    """The changes; ``left`` takes what cannot be opened."""
    for key, stored in sorted(world.deployment_roles.items()):
        name = f"{key[1]} in {key[0]}"
        user, system = (_by(keys, name, layer, left) for layer in (stored.record.user, stored.record.system))
        if (user, system) != (stored.record.user, stored.record.system):
            yield Set(paths.deployment_role(*key), replace(stored.record, user=user, system=system), stored.version)
    for name, path, value, version in _blobs(opened, world):
        after = _by(keys, name, value, left)
        if after != value:
            yield Set(path, after, version)


def _by(keys: Keyring, name: str, value: Json, left: dict[str, str]) -> Json:
    from nodepool_ocb.secrecy.errors import Sealed

    def anew(place: str, text: str) -> Json:
        try:
            return keys.anew(place, text) or {secrecy.KEY: text}
        except Sealed as sealed:
            left[f"{name} {place}"] = str(sealed)
            return {secrecy.KEY: text}

    return secrecy.replaced(value, anew)


def _owners(opened: Session, world: World) -> Iterator[Owned]:
    for name, role in sorted(world.roles.items()):
        yield f"role {name}", role.record.template
    for (deployment, name), stored in sorted(world.deployment_roles.items()):
        yield f"{name} in {deployment} (user)", stored.record.user
        yield f"{name} in {deployment} (system)", stored.record.system
    for name, _, value, _ in _blobs(opened, world):
        yield name, value


def _blobs(opened: Session, world: World) -> Iterator[tuple[str, str, Json, int]]:
    """Whose, where, what, and the version: the attributes of all noderoles; what cannot be decoded is said, and left out."""
    from nodepool_ocb.store.client import codec

    vertices = sorted(world.vertices(), key=lambda each: each.name)
    wanted = [
        (f"{vertex.name} ({layer})", path)
        for vertex in vertices
        for layer, path in zip(BLOBS, unreadable.blobs(vertex), strict=True)
    ]
    for (name, path), znode in zip(wanted, opened.get_many([path for _, path in wanted]), strict=True):
        try:
            if znode is not None:
                yield name, path, codec.attributes(znode), znode.version
        except Spoiled as wrong:
            output.say(f"warning: {wrong}")

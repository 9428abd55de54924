"""``nodepool-ocb secret``: keys, where secrets stand, and their way from one key to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from nodepool_ocb.cli.kit import output, sealing, session
from nodepool_ocb.cli.kit.options import Noun, dry_run_option
from nodepool_ocb.cli.noderoles import owners
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import attributes
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.records import Change, Json, Role, Set
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.views import cluster as shown

if TYPE_CHECKING:
    from nodepool_ocb.secrecy.keyring import Keyring
    from nodepool_ocb.store.client.session import Session


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
    """Every secret: whose attribute it is, and which key opens it or what it refers to. Values are never shown.

    Kind `plain` is what a role declares as secret now, and was stored before: `secret rotate` encrypts it.
    """
    with session.session() as opened:
        world = session.load(opened)
        rows = shown.secrets(owners.of(opened, world), catalogue(world), sealing.secrets().keys().ids)
    output.things(rows, ("name", "attribute", "kind", "key", "state", "reference"))


@command.command(writes=True)
@dry_run_option
def rotate(dry_run: bool) -> None:
    """Encrypt anew, by the first key of the file, what older keys encrypted; then these may go.

    Nothing is outdated by that. It may be stopped and repeated, and ends with 1 where something cannot be opened.
    What stands in plain text, and roles declare as secret now, is encrypted too; a noderole that sees it is outdated by that.
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
    known = catalogue(world)
    for key, stored in sorted(world.deployment_roles.items()):
        name, role = f"{key[1]} in {key[0]}", key[1]
        user, system = (
            _by(keys, name, _encrypted(keys, known, role, layer), left)
            for layer in (stored.record.user, stored.record.system)
        )
        if (user, system) != (stored.record.user, stored.record.system):
            yield Set(paths.deployment_role(*key), replace(stored.record, user=user, system=system), stored.version)
    for each in owners.blobs(opened, world):
        after = _by(keys, each.name, _encrypted(keys, known, each.role, each.value), left)
        if after != each.value:
            yield Set(each.path, after, each.version)


def _encrypted(keys: Keyring, known: Mapping[str, Role], role: str, value: Json) -> Json:
    """The same, with plain text encrypted where the role declares a secret."""
    for place, plain in concealing.plain(known, role, value):
        value = attributes.write(value, place, keys.encrypt(place, plain))
    return value


def _by(keys: Keyring, name: str, value: Json, left: dict[str, str]) -> Json:
    from nodepool_ocb.secrecy.errors import Sealed

    def anew(place: str, text: str) -> Json:
        try:
            return keys.anew(place, text) or {secrecy.KEY: text}
        except Sealed as sealed:
            left[f"{name} {place}"] = str(sealed)
            return {secrecy.KEY: text}

    return secrecy.replaced(value, anew)

"""Task lists as commands see them: read from files and from ZooKeeper, in their layers, and stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.cli.kit.options import unknown
from nodepool_ocb.documents import document
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks.exchange import StoredRow
from nodepool_ocb.views.tasks.lists import ListRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="As Fuel read it: of a key that is there twice the last counts, unknown keys are left out.",
)
compat_option = click.option(
    "--compat-prefix", is_flag=True, help="/patterns/ match the beginnings of names, as Fuel's did; else whole names."
)


class Owner(msgspec.Struct, frozen=True):
    """Whose list it is."""

    release: str | None = None
    deployment: str | None = None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What an upload brings."""

    files: Sequence[str] = ()
    base: str | None = None
    settings: str | None = None  # a file
    lenient: bool = False
    compat_prefix: bool = False


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A list as it is run: after the layers."""

    tasks: TaskList
    settings: Mapping[str, Json] = {}
    warnings: tuple[str, ...] = ()


def owner(release: str | None, deployment: str | None) -> Owner:
    """The one that the options name."""
    if bool(release) == bool(deployment):
        raise click.UsageError("give --release or --deployment" + (", not both" if release else ""))
    return Owner(release, deployment)


def warn(warnings: Iterable[str]) -> None:
    """What is odd."""
    for each in warnings:
        output.say(f"warning: {each}")


def read_texts(sources: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The files of a list, by their paths below its root, and what was left out.

    Of several directories each path begins with the directory's name. Raises NotFound and Invalid.
    """
    from nodepool_ocb.tasks import reading

    texts: dict[str, str] = {}
    warnings: list[str] = []
    for source in sources:
        found = reading.files(Path(source))
        prefix = f"{Path(source).resolve().name}/" if len(sources) > 1 and Path(source).is_dir() else ""
        for name, text in found.texts.items():
            if f"{prefix}{name}" in texts:
                raise Invalid(f"{source}: another file is called {prefix}{name}, too; give the directory of both")
            texts[f"{prefix}{name}"] = text
        warnings += found.warnings
    return texts, tuple(warnings)


def check(
    sources: Sequence[str], release: str | None, deployment: str | None, *, lenient: bool, compat_prefix: bool
) -> tuple[TaskList, tuple[str, ...]]:
    """The list in these files, and what is odd in it; over that of a release, or of a deployment's release.

    Raises Invalid with every fault, and NotFound.
    """
    from nodepool_ocb.tasks import reading

    if not release and not deployment:
        found = reading.read_files([Path(each) for each in sources], lenient=lenient, compat_prefix=compat_prefix)
        return found.tasks, found.warnings
    texts, left_out = read_texts(sources)
    with session.session() as opened:
        opened.sync()
        below = _base(opened, release, deployment)
    read = reading.read([*below, Layer(texts)], lenient=lenient, compat_prefix=compat_prefix)
    return read.tasks, (*left_out, *read.warnings)

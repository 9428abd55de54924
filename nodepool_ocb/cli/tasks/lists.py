"""Task lists as commands see them: read from files and from ZooKeeper, in their layers, and stored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import click
import msgspec

from nodepool_ocb.cli.kit import output, session
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid, NotFound, bounded
from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.layers import Layer, named
from nodepool_ocb.tasks.tasklist import TaskList
from nodepool_ocb.views.tasks.lists import ListRow

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.tasks.lists import Owner as StoredOwner
    from nodepool_ocb.store.tasks.lists import Stored
    from nodepool_ocb.tasks.reading import Reading

AS_FUEL: Final = "note: Fuel would have read this list; --lenient reads it so, and what is refused here is a warning"

lenient_option = click.option(
    "--lenient",
    is_flag=True,
    help="As Fuel read it: of a key that is there twice the last counts, unknown keys are left out, a setting that is not there"
    " is null in conditions.",
)
compat_option = click.option(
    "--compat-prefix", is_flag=True, help="/patterns/ match the beginnings of names, as Fuel's did; else whole names."
)


class Owner(msgspec.Struct, frozen=True):
    """Whose list it is: one of both."""

    release: str | None = None
    deployment: str | None = None

    def __str__(self) -> str:
        return f"release {self.release}" if self.release else f"deployment {self.deployment}"


class AnyRead(Protocol):
    """How a list is read: that of a record, or what is asked for."""

    @property
    def lenient(self) -> bool: ...

    @property
    def compat_prefix(self) -> bool: ...


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """How a list is to be read."""

    lenient: bool
    compat_prefix: bool


class Base(msgspec.Struct, frozen=True):
    """What is below a list: that of a release, and how it is read; nothing where there is no release."""

    layers: tuple[Layer, ...] = ()
    lenient: bool = False
    compat_prefix: bool = False

    def flags(self, own: AnyRead) -> tuple[bool, bool]:
        """Whether a list, with what is below it, is read ``--lenient`` and ``--compat-prefix``."""
        return own.lenient or self.lenient, own.compat_prefix or self.compat_prefix


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A stored list with those below it."""

    layers: tuple[Layer, ...]  # the lowest first
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
    for each in bounded(tuple(warnings), "warnings"):
        output.say(f"warning: {each}")


# -- reading --


def check(
    sources: Sequence[str], release: str | None, deployment: str | None, *, lenient: bool, compat_prefix: bool
) -> Reading:
    """The list in these files; over that of a release, or of a deployment's release. Raises Invalid and NotFound."""
    from nodepool_ocb.tasks import reading

    if not release and not deployment:
        files = [Path(each) for each in sources]
        return judged(lenient, partial(reading.read_files, files, compat_prefix=compat_prefix))
    texts, left_out = read_texts(sources)
    with session.session() as opened:
        opened.sync()
        under = release or stored(opened, Owner(None, deployment)).record.release
        below = base(opened, under)
    lenient, compat_prefix = below.flags(Read(lenient=lenient, compat_prefix=compat_prefix))
    layers = [*below.layers, Layer(placed(sources, texts))]
    found = judged(lenient, partial(reading.read, layers, compat_prefix=compat_prefix))
    return reading.Reading(found.tasks, (*left_out, *found.warnings))


def judged(lenient: bool, read: Callable[..., Reading]) -> Reading:
    """What ``read(lenient=...)`` gives; where it is refused and Fuel would have read it, a note names the option."""
    try:
        return read(lenient=lenient)
    except Invalid:
        with contextlib.suppress(Invalid):
            if not lenient:
                read(lenient=True)
                output.say(AS_FUEL)
        raise


def placed(sources: Sequence[str], texts: Mapping[str, str]) -> Mapping[str, str]:
    """The texts of one file or directory, by the paths that messages name."""
    if len(sources) != 1:
        return texts
    return named(sources[0], texts) if Path(sources[0]).is_dir() else dict.fromkeys(sources, *texts.values())


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


def load(opened: Session, of: Owner) -> Loaded:
    """The list as it is run; raises NotFound where there is none, Invalid with all that is wrong in it."""
    from nodepool_ocb.tasks import reading

    found = stored(opened, of)
    below = base(opened, found.record.release)
    own = [Layer(found.texts, str(of))] if found.there else []
    if not below.layers and not own:
        raise _missing(opened, of)
    layers = (*below.layers, *own)
    lenient, compat_prefix = below.flags(found.record)
    read = reading.read(layers, lenient=lenient, compat_prefix=compat_prefix)
    return Loaded(layers=layers, tasks=read.tasks, settings=found.settings, warnings=read.warnings)


def stored(opened: Session, of: Owner) -> Stored:
    from nodepool_ocb.store.tasks import lists

    return lists.read(opened, whose(of))


def whose(of: Owner) -> StoredOwner:
    from nodepool_ocb.store.tasks import lists

    return lists.release(of.release) if of.release else lists.deployment(of.deployment or "")


def base(opened: Session, release: str | None) -> Base:
    """What is below a list of which this is the release; raises NotFound where that has no list."""
    if not release:
        return Base()
    found = stored(opened, Owner(release))
    if not found.there:
        raise _missing(opened, Owner(release))
    return Base((Layer(found.texts, f"release {release}"),), found.record.lenient, found.record.compat_prefix)


def _missing(opened: Session, of: Owner) -> NotFound:
    from nodepool_ocb.store.tasks import lists

    if of.release:
        known = [each.name for each, record in lists.listed(opened).items() if not each.deployment and record.upload]
        near = did_you_mean(of.release, known) or "; see: nodepool-ocb tasks list"
        return NotFound(f"release {of.release} has no task list{near}")
    return NotFound(
        f"deployment {of.deployment} has no task list;"
        f" nodepool-ocb tasks upload DIR --deployment {of.deployment}, or --base RELEASE for that of a release"
    )


def rows(opened: Session) -> list[ListRow]:
    """Everyone who has a list, releases first."""
    from nodepool_ocb.store.tasks import lists

    return [
        ListRow(
            kind="deployment" if each.deployment else "release",
            name=each.name,
            base=record.release,
            tasks=record.tasks,
            files=record.files,
            settings=_configured(opened, each),
            since=record.since or None,
            by=record.by,
        )
        for each, record in lists.listed(opened).items()
    ]


def _configured(opened: Session, of: StoredOwner) -> bool:
    from nodepool_ocb.store.tasks import lists

    with contextlib.suppress(NotFound):  # deleted meanwhile
        return lists.configured(opened, of)
    return False

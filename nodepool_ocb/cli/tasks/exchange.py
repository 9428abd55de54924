"""``tasks upload``, ``download``, ``sync`` and ``list``: lists between files and ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from nodepool_ocb.cli.kit import output
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform, usage
from nodepool_ocb.cli.tasks import options
from nodepool_ocb.cli.tasks.trees import Tree, trees
from nodepool_ocb.documents import document
from nodepool_ocb.documents import files as reader
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.tasks import files as given
from nodepool_ocb.operations.tasks import storing
from nodepool_ocb.operations.tasks.lists import TasksDownload, TasksList
from nodepool_ocb.operations.tasks.storing import ReleaseFiles, TasksSync, TasksUpload
from nodepool_ocb.telemetry import terminal_escape
from nodepool_ocb.views.tasks import exchange as shown

NAME_BYTES: Final = 255  # of one part of a path


@click.command(cls=Verb, operation=TasksUpload)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[DIR|FILE]...")
@options.release_option
@options.deployment_option
@click.option("--base", metavar="RELEASE", help="The deployment's own list is over that of this release.")
@click.option("--settings", metavar="FILE", type=click.Path(), help="JSON or YAML: the settings of conditions.")
@options.lenient_option
@options.compat_option
@click.option("--force", is_flag=True, help="Also if the list was changed since it was downloaded here.")
@dry_run_option
def upload(
    files: Sequence[str], release: str | None, deployment: str | None, base: str | None, settings: str | None,
    lenient: bool, compat_prefix: bool, force: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Check a task list, and store it: of a directory every tasks.yaml below it.

    It takes the place of the whole list that was there. Without files only --base and --settings change.
    """
    with usage():
        storing.refuse_contradictions(release, deployment, bool(files), base, settings or None)
    operation = TasksUpload(
        release=release,
        deployment=deployment,
        files=given.read(files) if files else None,
        base=base,
        settings=read_settings(settings) if settings else None,
        lenient=lenient,
        compat_prefix=compat_prefix,
        force=force,
    )
    _report([perform(operation, dry_run=dry_run).answer], dry_run)


def read_settings(file: str) -> Mapping[str, Json]:
    """The settings in a file of JSON or YAML; raises Invalid."""
    value = document.load(Path(file)).value
    if not isinstance(value, dict):
        raise Invalid(f"{file}:1: must be a mapping of settings; write KEY: VALUE")
    return value


@click.command(cls=Verb, operation=TasksDownload)
@options.release_option
@options.deployment_option
@click.option("--dir", "folder", default=".", show_default=True, type=click.Path(), help="Where the files are written.")
@click.option("--merged", is_flag=True, help="One tasks.yaml: the release's list with the deployment's own entries.")
@click.option("--force", is_flag=True, help="Also over files that are there, and differ.")
def download(release: str | None, deployment: str | None, folder: str, merged: bool, force: bool) -> None:
    """Write a stored list as the files that it was uploaded from; a deployment's settings to settings.json."""
    operation = TasksDownload(release=release, deployment=deployment, merged=merged)
    with usage():
        operation.owner()
    written = write(Path(folder), perform(operation).answer, force)
    output.things([shown.FileRow(file=str(file)) for file in written], ("file",), key="file")


def write(folder: Path, texts: Mapping[str, str], force: bool) -> list[Path]:
    """Write files below a folder, which is made.

    Raises Conflict where one is there and differs, unless ``force``; Invalid for a name that leads out of the folder.
    """
    places = {name: folder / name for name in texts}
    inside = folder.resolve()
    for name, place in places.items():
        if why := _wrong(name, place, inside):
            raise Invalid(
                f"{terminal_escape.line(name[:100]) or repr(name)} {why}; nothing was written; rename it in the list"
            )
    other = [str(place) for name, place in places.items() if place.exists() and not _same(place, texts[name])]
    if other and not force:
        raise Conflict(f"there are other files: {', '.join(other)}; --force writes over them")
    for name, place in places.items():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(texts[name], encoding="utf-8")
        except OSError as error:
            raise Conflict(f"{place} cannot be written: {error.strerror}; check the directory and its mode") from error
    return list(places.values())


def _wrong(name: str, place: Path, inside: Path) -> str | None:
    """Why a stored name is no name of a file below the folder."""
    try:
        resolved = place.resolve()
        if Path(name).is_absolute() or not resolved.is_relative_to(inside):
            return f"leads out of {inside}"
        if any(len(part.encode()) > NAME_BYTES for part in Path(name).parts):
            return f"has a part of more than {NAME_BYTES} bytes"
        place.exists()
        return "is the name of the folder itself" if resolved == inside else None
    except (OSError, ValueError) as error:
        return f"can be no name of a file: {getattr(error, 'strerror', None) or error}"


def _same(place: Path, text: str) -> bool:
    return place.is_file() and reader.read(place, len(text.encode())) == text.encode()


@click.command(cls=Verb, operation=TasksSync)
@click.option("--dir", "folder", required=True, type=click.Path(), help="For example /etc/puppet.")
@options.lenient_option
@options.compat_option
@dry_run_option
def sync(folder: str, lenient: bool, compat_prefix: bool, dry_run: bool) -> None:
    """Store the list of every release below a directory: all tasks.yaml of DIR/RELEASE are the list of RELEASE.

    A file `release` (the name) or `release.yaml` (`release: NAME`) in DIR, or in a directory in it, names another release.
    A release with a fault stays as it is, and the command then ends with exit code 1.
    """
    releases = tuple(map(_release, trees(Path(folder))))
    operation = TasksSync(releases=releases, lenient=lenient, compat_prefix=compat_prefix)
    answer = perform(operation, dry_run=dry_run).answer
    _report(answer.rows, dry_run and not answer.problems)
    if answer.problems:
        raise Invalid(answer.problems)


def _release(tree: Tree) -> ReleaseFiles:
    """The files of a release, or the reasons why they cannot be read."""
    try:
        return ReleaseFiles(release=tree.release, how=tree.how, files=given.read(tree.folders))
    except Invalid as wrong:
        return ReleaseFiles(release=tree.release, how=tree.how, problems=wrong.problems)
    except NotFound as missing:
        return ReleaseFiles(release=tree.release, how=tree.how, problems=(str(missing),))


def _report(rows: Sequence[shown.StoredRow], dry_run: bool) -> None:
    output.things(rows, ("kind", "name", "change", "tasks", "files", "base", "how"))
    if dry_run and any(row.change in shown.CHANGES for row in rows):
        raise click.exceptions.Exit(10)


@click.command("list", cls=Verb, operation=TasksList)
def list_() -> None:
    """Every release and deployment that has a list."""
    rows = perform(TasksList()).answer
    output.things(rows, ("kind", "name", "base", "tasks", "files", "settings", "since", "by"))

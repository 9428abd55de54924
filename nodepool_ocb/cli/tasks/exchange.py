"""``tasks upload``, ``download`` and ``sync``: lists between files and ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from nodepool_ocb.cli.kit import completion, output, session
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.tasks import lists
from nodepool_ocb.cli.tasks.lists import Owner
from nodepool_ocb.cli.tasks.storing import Given, store
from nodepool_ocb.cli.tasks.trees import Tree, trees
from nodepool_ocb.documents import files as reader
from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.telemetry import visible
from nodepool_ocb.views.tasks import exchange as shown

SETTINGS: Final = "settings.json"
NAME_BYTES: Final = 255  # of one part of a path

release_option = click.option(
    "--release", metavar="NAME", shell_complete=completion.releases, help="The list of this release."
)
deployment_option = click.option(
    "--deployment", shell_complete=completion.deployments, help="The own list of this deployment."
)


@click.command(cls=Verb, writes=True)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[DIR|FILE]...")
@release_option
@deployment_option
@click.option("--base", metavar="RELEASE", help="The deployment's own list is over that of this release.")
@click.option("--settings", metavar="FILE", type=click.Path(), help="JSON or YAML: what conditions call settings.")
@lists.lenient_option
@lists.compat_option
@click.option("--force", is_flag=True, help="Also where somebody changed the list since it was downloaded here.")
@dry_run_option
def upload(
    files: Sequence[str], release: str | None, deployment: str | None, base: str | None, settings: str | None,
    lenient: bool, compat_prefix: bool, force: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Check a task list, and store it: of a directory every tasks.yaml below it.

    It takes the place of the whole list that was there. Without files only --base and --settings change.
    """
    owner = lists.owner(release, deployment)
    if owner.release and (base or settings):
        raise click.UsageError("--base and --settings are of a deployment")
    if not files and not base and not settings:
        raise click.UsageError("give the files of a list, --base or --settings")
    given = Given(files=tuple(files), base=base, settings=settings, lenient=lenient, compat_prefix=compat_prefix)
    with session.session() as opened:
        row = store(opened, owner, given, force=force, dry_run=dry_run)
    _report([row], dry_run)


@click.command(cls=Verb)
@release_option
@deployment_option
@click.option("--dir", "folder", default=".", show_default=True, type=click.Path(), help="Where the files are written.")
@click.option("--merged", is_flag=True, help="One tasks.yaml: the release's list with the deployment's own entries.")
@click.option("--force", is_flag=True, help="Also over files that are there, and differ.")
def download(release: str | None, deployment: str | None, folder: str, merged: bool, force: bool) -> None:
    """Write a stored list as the files that it was uploaded from; a deployment's settings to settings.json."""
    owner = lists.owner(release, deployment)
    with session.session() as opened:
        opened.sync()
        found = lists.load(opened, owner)
    texts = shown.merged(found.layers) if merged else _files(found, owner)
    written = write(Path(folder), texts, force)
    output.things([shown.FileRow(file=str(file)) for file in written], ("file",), key="file")


def _files(found: lists.Loaded, owner: Owner) -> dict[str, str]:
    own = next((layer.texts for layer in found.layers if layer.origin == str(owner)), {})
    settings = {SETTINGS: json.dumps(found.settings, indent=2, ensure_ascii=False) + "\n"} if found.settings else {}
    return {**own, **settings}


def write(folder: Path, texts: Mapping[str, str], force: bool) -> list[Path]:
    """Write files below a folder, which is made.

    Raises Conflict where one is there and differs, unless ``force``; Invalid for a name that leads out of the folder.
    """
    places = {name: folder / name for name in texts}
    inside = folder.resolve()
    for name, place in places.items():
        if why := _wrong(name, place, inside):
            raise Invalid(f"{visible.line(name[:100]) or repr(name)} {why}; nothing was written")
    other = [str(place) for name, place in places.items() if place.exists() and not _same(place, texts[name])]
    if other and not force:
        raise Conflict(f"there are other files: {', '.join(other)}; --force writes over them")
    for name, place in places.items():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(texts[name], encoding="utf-8")
        except OSError as error:
            raise Conflict(f"{place} cannot be written: {error.strerror}") from error
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


@click.command(cls=Verb, writes=True)
@click.option("--dir", "folder", required=True, type=click.Path(), help="For example /etc/puppet.")
@lists.lenient_option
@lists.compat_option
@dry_run_option
def sync(folder: str, lenient: bool, compat_prefix: bool, dry_run: bool) -> None:
    """Store the list of every release below a directory: all tasks.yaml of DIR/RELEASE are the list of RELEASE.

    A file `release` (the name) or `release.yaml` (`release: NAME`) in DIR, or in a directory in it, names another release.
    A release with a fault stays as it is, and the command then ends with exit code 1.
    """
    rows, problems = [], []
    with session.session() as opened:
        for tree in trees(Path(folder)):
            try:
                given = Given(files=tuple(map(str, tree.folders)), lenient=lenient, compat_prefix=compat_prefix)
                rows.append(store(opened, Owner(tree.release), given, force=True, dry_run=dry_run, how=tree.how))
            except Invalid as wrong:
                rows.append(shown.failed(tree.release, tree.how, len(wrong.problems)))
                problems += _of(tree, wrong.problems)
            except (NotFound, Conflict) as refused:
                rows.append(shown.failed(tree.release, tree.how, 1))
                problems += _of(tree, (str(refused),))
    _report(rows, dry_run and not problems)
    if problems:
        raise Invalid(problems)


def _of(tree: Tree, wrong: Sequence[str]) -> list[str]:
    return [*wrong, f"release {tree.release}: {counted(len(wrong), 'fault')}; its list stays as it is"]


def _report(rows: Sequence[shown.StoredRow], dry_run: bool) -> None:
    output.things(rows, ("kind", "name", "change", "tasks", "files", "base", "how"))
    if dry_run and any(row.change in shown.CHANGES for row in rows):
        raise click.exceptions.Exit(10)

"""``nodepool-ocb image``: images, their builds, and requests to builders."""

from __future__ import annotations

import time
from typing import Final

import click

from nodepool_ocb.cli.images.exchange import export, import_
from nodepool_ocb.cli.images.log import log
from nodepool_ocb.cli.kit import completion, output, reporting, times
from nodepool_ocb.cli.kit.options import Noun, dry_run_option, timeout_option, yes_option
from nodepool_ocb.cli.kit.performing import perform, performer
from nodepool_ocb.cli.maintenance.options import say as say_maintenance
from nodepool_ocb.errors import EndPassed
from nodepool_ocb.operations.images import watching
from nodepool_ocb.operations.images.building import ImageBuild
from nodepool_ocb.operations.images.deleting import ImageDelete
from nodepool_ocb.operations.images.forgetting import ImageErase
from nodepool_ocb.operations.images.pausing import ImagePause, ImageUnpause
from nodepool_ocb.operations.images.reading import ImageList, ImageShow
from nodepool_ocb.views import images

LIST_COLUMNS: Final = (
    "name",
    "build",
    "since",
    "formats",
    "builds",
    "uploads",
    "failures",
    "request",
    "pause",
    "builder",
)
UPLOAD_COLUMNS: Final = ("build", "provider", "upload", "state", "since", "format", "external_id", "attempt", "reason")


@click.group(cls=Noun)
def command() -> None:
    """Images: their builds, asking for builds, logs, pauses."""


command.add_command(export)
command.add_command(import_)
command.add_command(log)

name_argument = click.argument("name", metavar="IMAGE", shell_complete=completion.images)


# -- looking --


@command.command("list", operation=ImageList)
@click.option("--watch", is_flag=True, help="One JSON object a line for each, now and whenever it changes.")
def list_(watch: bool) -> None:
    """Every image: its newest ready build, the number of builds, and requests to builders.

    FORMATS and UPLOADS (ready/all) are those of the newest ready build. FAILURES counts the builds that failed since.
    """
    if watch:
        _watch()
        return
    rows = perform(ImageList()).answer
    now = time.time()
    output.things(rows, LIST_COLUMNS, shown=(images.words(row, now) for row in rows))


def _watch() -> None:
    shown: dict[str, images.ImageRow] = {}
    for rows in watching.rows(performer()):
        for name, row in rows.items():
            if shown.get(name) != row:
                output.line(row)
        for name in sorted(shown.keys() - rows.keys()):
            output.line(images.ImageGone(name))
        shown = rows


@command.command(operation=ImageShow)
@name_argument
def show(name: str) -> None:
    """One image: its builds with their uploads, its failures, the time of the next attempt, and the builder that works on it."""
    document = perform(ImageShow(image=name)).answer
    builds = output.table(document.builds, ("build", "state", "since", "builder", "formats", "removed", "reason"))
    tables = [output.fields(images.about(document, time.time())), builds]
    if uploads := images.uploads_of(document.builds):
        tables.append(output.table(uploads, UPLOAD_COLUMNS))
    output.thing(document, name, *tables)


# -- asking for a build --


@command.command(operation=(ImageBuild, watching.ImageBuildLook))
@name_argument
@click.option("--reason", help="Why; builders log it, and `image show` has it.")
@click.option("--wait", is_flag=True, help="Wait until a build that began after this is ready, or has failed.")
@timeout_option
@dry_run_option
def build(name: str, reason: str | None, wait: bool, timeout_seconds: float | None, dry_run: bool) -> None:
    """Ask for a build now, off the schedule; a build that is under way already does not count."""
    from nodepool_ocb.cli.images import building

    performed = perform(ImageBuild(image=name, reason=reason), dry_run=dry_run)
    asked = performed.answer
    if asked.request is None:
        reporting.performed(performed, image=name)
        return
    if wait:
        building.wait(name, asked.request, timeout_seconds, performed.rows, no_builder=not asked.builders)
        return
    for sentence in asked.after:
        output.say(sentence)
    reporting.performed(performed, image=name, request=asked.request)


# -- pausing --


@command.command(operation=ImagePause)
@name_argument
@click.option("--reason", help="Why; `image show` has it.")
@click.option("--until", type=times.moment, metavar="TIME", help="As 2026-01-31T18:00, or with Z behind it for UTC.")
@click.option("--for", "seconds", type=times.duration, metavar="DURATION", help="As 90m, 2h30m or 1d.")
@dry_run_option
def pause(name: str, reason: str | None, until: float | None, seconds: float | None, dry_run: bool) -> None:
    """Let no build of an image begin; one that is under way goes on, and uploads too."""
    if until is not None and seconds is not None:
        raise click.UsageError("--until and --for contradict each other; give one of them")

    operation = ImagePause(image=name, reason=reason, until=until, seconds=seconds)
    try:
        performed = perform(operation, dry_run=dry_run)
    except EndPassed as passed:
        raise click.UsageError(f"--until {passed}") from passed
    reporting.performed(performed)
    end = performed.answer.until
    say_maintenance(f"image {name} is paused: no build of it begins", end, f"nodepool-ocb image unpause {name}")


@command.command(operation=ImageUnpause)
@name_argument
@dry_run_option
def unpause(name: str, dry_run: bool) -> None:
    """Let builds of an image begin again; a pause in the configuration stays."""
    reporting.performed(perform(ImageUnpause(image=name), dry_run=dry_run))


# -- deleting --


@command.command(operation=ImageDelete)
@name_argument
@click.option("--build", "id", shell_complete=completion.builds, help="Only this build; the default is all.")
@click.option("--force", is_flag=True, help="Also where no ready build is left.")
@yes_option
@dry_run_option
def delete(name: str, id: str | None, force: bool, yes: bool, dry_run: bool) -> None:
    """Ask for the deletion of builds: their uploads go first, then their files, then the records.

    Refused without --force where the image would be left without a ready build. A configured image is then built anew.
    A build that is under way is stopped.
    """
    operation = ImageDelete(image=name, build=id, force=force)
    reporting.performed(perform(operation, dry_run=dry_run, yes=yes))


@command.command(operation=ImageErase)
@click.argument("provider", metavar="PROVIDER", shell_complete=completion.providers)
@yes_option
@dry_run_option
def erase(provider: str, yes: bool, dry_run: bool) -> None:
    """Delete the records of all uploads to a provider that is gone for good, without a request to it.

    The objects there stay, and are named: delete them there by hand. Refused while a running builder has the provider. The builds
    that had only these uploads are then free to go.
    """
    reporting.performed(perform(ImageErase(provider=provider), dry_run=dry_run, yes=yes))

"""``nodepool-ocb image``: images, their builds, and what is asked of builders."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import click

from nodepool_ocb.cli.aside.options import say as say_aside
from nodepool_ocb.cli.images import configured, forgetting, imaging
from nodepool_ocb.cli.images.exchange import export, import_
from nodepool_ocb.cli.images.log import log
from nodepool_ocb.cli.kit import completion, output, session, times
from nodepool_ocb.cli.kit.options import Noun, confirm, dry_run_option, timeout_option, yes_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import BuildView, ImageView
from nodepool_ocb.images.states import BuildEvent, build_after
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState
from nodepool_ocb.model.records import Change, Check, Set
from nodepool_ocb.operations.images.building import ImageBuild
from nodepool_ocb.operations.images.pausing import EndPassed, ImagePause, ImageUnpause
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
    """Every image: its newest ready build, how many builds there are, and what is asked of builders.

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
    paused = configured.paused()
    for _, found in imaging.followed(None):
        rows = {name: images.row(view, time.time(), paused) for name, view in sorted(found.items())}
        for name, row in rows.items():
            if shown.get(name) != row:
                output.line(row)
        for name in sorted(shown.keys() - rows.keys()):
            output.line(images.ImageGone(name))
        shown = rows


@command.command(operation=ImageShow)
@name_argument
def show(name: str) -> None:
    """One image: its builds with their uploads, its failures, when it is tried again, and who works on it."""
    document = perform(ImageShow(image=name)).answer
    builds = output.table(document.builds, ("build", "state", "since", "builder", "formats", "removed", "reason"))
    tables = [output.fields(images.about(document, time.time())), builds]
    if uploads := images.uploads_of(document.builds):
        tables.append(output.table(uploads, UPLOAD_COLUMNS))
    output.thing(document, name, *tables)


# -- asking for a build --


@command.command(operation=ImageBuild)
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
        session.report_performed(performed, image=name)
        return
    if wait:
        building.wait(name, asked.request, timeout_seconds, performed.rows, nobody=not asked.builders)
        return
    for sentence in asked.after:
        output.say(sentence)
    session.report_performed(performed, image=name, request=asked.request)


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
        raise click.UsageError("--until and --for contradict each other")

    operation = ImagePause(image=name, reason=reason, until=until, seconds=seconds)
    try:
        performed = perform(operation, dry_run=dry_run)
    except EndPassed as passed:
        raise click.UsageError(f"--until {passed}") from passed
    session.report_performed(performed)
    end = performed.answer.until
    say_aside(f"image {name} is paused: no build of it begins", end, f"nodepool-ocb image unpause {name}")


@command.command(operation=ImageUnpause)
@name_argument
@dry_run_option
def unpause(name: str, dry_run: bool) -> None:
    """Let builds of an image begin again; a pause in the configuration stays."""
    session.report_performed(perform(ImageUnpause(image=name), dry_run=dry_run))


# -- deleting --


@command.command(writes=True)
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
    with session.session() as opened:
        view = imaging.image_of(imaging.load(opened), name)
        going = _deletable(view, id, force)
        if going and not dry_run:
            confirm(f"delete {', '.join(_going(view, build) for build in going)}", yes)
        shown = {build.id: images.stands(view, build) for build in going}

        def decide(known: imaging.Images) -> Iterator[Sequence[Change]]:
            view = imaging.image_of(known, name)
            now = [build for build in _deletable(view, id, force) if build.id in shown]
            for build in now:
                if images.stands(view, build) is not shown[build.id]:
                    was = f"{name}-{build.id} was {shown[build.id]}, and is {images.stands(view, build)} now"
                    raise Conflict(f"{was}; look at it again")
            spared = [Check(paths.build(name, build.id), build.version) for build in view.ready() if build not in now]
            for part in session.parts([_deletion(name, build, opened.now()) for build in now]):
                yield [*spared[:1], *part]  # what must be left is left, whoever else deletes now

        session.report(imaging.change(opened, decide, dry_run), dry_run)


@command.command(writes=True)
@click.argument("provider", metavar="PROVIDER", shell_complete=completion.providers)
@yes_option
@dry_run_option
def erase(provider: str, yes: bool, dry_run: bool) -> None:
    """Delete the records of all uploads to a provider that is gone for good, and ask nothing of it.

    What is there stays, and is named: delete it there by hand. Refused while a running builder has the provider. The builds
    that had only these uploads are then free to go.
    """
    with session.session() as opened:
        forgetting.erase(opened, provider, yes=yes, dry_run=dry_run)


def _deletable(view: ImageView, id: str | None, force: bool) -> list[BuildView]:
    """The builds that are to go; raises Conflict, or NotFound."""
    chosen = list(view.builds) if id is None else [imaging.build_of(view, id)]
    going = [build for build in chosen if build.record.state is not BuildState.DELETE]
    ready = view.ready()
    if not force and ready and all(build in going for build in ready):
        what = "the only ready build" if len(ready) == 1 else "every ready build"
        raise Conflict(f"that is {what} of {view.name}: nothing could be launched from it; give --force if you mean it")
    return going


def _going(view: ImageView, build: BuildView) -> str:
    """A build as a person is asked about it."""
    under_way = images.stands(view, build) is BuildState.BUILDING
    count = len(build.uploads)
    uploads = f" with {count} upload{'s' if count > 1 else ''}" if count else ""
    return f"{view.name}-{build.id}{uploads}{', which is being built' if under_way else ''}"


def _deletion(name: str, build: BuildView, now: float) -> Change:
    reason = f"{session.me()} asked for its deletion"
    record = build_after(build.record, BuildEvent.DELETE, now, reason=reason)
    return Set(paths.build(name, build.id), record, build.version)

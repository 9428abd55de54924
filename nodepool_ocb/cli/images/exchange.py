"""``image export`` and ``image import``: the records of images as one document, from one ZooKeeper to another.

The document names images, below each its builds by id, below these their uploads by provider and id; records are as they are
in ZooKeeper. What is under way is left out: nobody could go on with it. The files of builds stay where they are, with the
builder whose image directory has the ``builder_id`` of the records.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from nodepool_ocb.cli.images import imaging, takeover
from nodepool_ocb.cli.kit import completion, output, session, terminal
from nodepool_ocb.cli.kit.options import Verb, dry_run_option
from nodepool_ocb.cli.kit.performing import perform
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.images import Build, Pause, Upload
from nodepool_ocb.model.records import Change, Create, Json, Record
from nodepool_ocb.operations.images.exporting import Document, Exported, ImageExport, lasting
from nodepool_ocb.views.view import View, plain

if TYPE_CHECKING:
    from nodepool_ocb.store.client.session import Session

R = TypeVar("R", bound=Record)

MOST_BYTES: Final = 64 << 20

_ID: Final = re.compile(r"[0-9]{10}")
_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")


class Export(View, frozen=True):
    """The document, as it is shown."""

    record: Document


class Named(View, frozen=True):
    """An image that is exported."""

    name: str


# -- export --


@click.command("export", cls=Verb, operation=ImageExport)
@click.argument("names", nargs=-1, metavar="[IMAGE]...", shell_complete=completion.images)
def export(names: Sequence[str]) -> None:
    """The records of images as one JSON document, for `image import`; of all images unless some are named.

    Builds and uploads that are under way are left out. Give `-o yaml` for YAML.
    """
    document = Export(perform(ImageExport(images=tuple(names))).answer)
    if output.chosen() == "table":
        terminal.document(plain(document))
    elif output.chosen() == "name":
        output.things([Named(name) for name in document.record.images], ("name",))
    else:
        output.thing(document, "")


def _plain(record: Record) -> dict[str, Json]:
    """As it is in ZooKeeper, with what a later version added."""
    from nodepool_ocb.store.client import codec

    document: dict[str, Json] = json.loads(codec.encode(record))
    return document


# -- import --


@click.command("import", cls=Verb, writes=True)
@click.argument("file", type=click.Path())
@dry_run_option
def import_(file: str, dry_run: bool) -> None:
    """Write the records of a document that `image export` made, or `nodepool export-image-data`; `-` reads it from stdin.

    An image that is there already is refused, unless all that it has is in the document, and the same: then the rest is
    written. Nothing is written where anything is refused; each image is written whole or not at all.
    """
    document = _read(file)
    changes: list[Change] = []
    with session.session() as opened:
        known = imaging.load(opened)
        wanted = {name: _changes(name, exported) for name, exported in document.images.items()}
        refused = [fault for name in wanted if name in known for fault in _differences(known[name], wanted[name])]
        if refused:
            raise Conflict("\n".join(refused))
        for name, whole in wanted.items():
            there = _there(opened, whole)
            missing = [change for change in whole if change.path not in there]
            if missing and not dry_run:
                _write(opened, name, missing)
            if not dry_run:
                _number(opened, whole)
            changes += [change for change in missing if change.data is not None]
    session.report(changes, dry_run)


def _read(name: str) -> Document:
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else files.read(name, MOST_BYTES)
    except OSError as error:
        raise Invalid(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise Invalid(f"{name}: larger than {MOST_BYTES} bytes; export the images in parts")
    try:
        if takeover.is_nodepools(found := msgspec.json.decode(data)):
            return Document(1, {name: _taken(image) for name, image in takeover.taken(found).items()})
        return msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(f"{name}: no document of image export: {error}") from error


def _taken(image: takeover.Taken) -> Exported:
    builds: dict[str, dict[str, Json]] = {}
    for id, record in image.builds.items():
        uploads = {
            provider: {upload: _plain(each) for upload, each in found.items()}
            for provider, found in image.uploads.get(id, {}).items()
        }
        builds[id] = {**_plain(record), "uploads": uploads}
    return Exported(builds, _plain(image.pause) if image.pause else None)


def _changes(name: str, exported: Exported) -> list[Create]:
    """All that makes the image; raises Invalid with every fault."""
    faults: list[str] = []
    made: list[Create] = []
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid(f"images: {name!r} cannot be the name of an image")
    if exported.pause is not None:
        made += _record(Pause, paths.pause(name), exported.pause, faults)
    for id, fields in sorted(exported.builds.items()):
        if not _ID.fullmatch(id):
            faults.append(f"{name}: {id!r} is no id of a build; it has ten digits")
            continue
        uploads = fields.pop("uploads", {})
        made += _record(Build, paths.build(name, id), fields, faults)
        made.append(Create(paths.build_providers(name, id)))
        made += _uploads(name, id, uploads, faults)
    if faults:
        raise Invalid(faults)
    return made


def _uploads(name: str, build: str, uploads: Any, faults: list[str]) -> Iterator[Create]:
    try:
        typed = msgspec.convert(uploads, dict[str, dict[str, dict[str, Json]]])
    except msgspec.ValidationError as error:
        faults.append(f"{name}-{build}: uploads: {error}")
        return
    for provider, records in sorted(typed.items()):
        if not _NAME.fullmatch(provider) or provider in (".", ".."):
            faults.append(f"{name}-{build}: {provider!r} cannot be the name of a provider")
            continue
        container = paths.uploads(name, build, provider)
        yield Create(container.rpartition("/")[0])
        yield Create(container)
        for id, fields in sorted(records.items()):
            if _ID.fullmatch(id):
                yield from _record(Upload, paths.upload(name, build, provider, id), fields, faults)
            else:
                faults.append(f"{name}-{build} {provider}: {id!r} is no id of an upload; it has ten digits")


def _record(kind: type[R], path: str, fields: dict[str, Json], faults: list[str]) -> Iterator[Create]:
    from nodepool_ocb.store.client import codec
    from nodepool_ocb.store.client.frames import Znode

    try:
        record = codec.decode(kind, Znode(path, msgspec.json.encode(fields), 0, 0))
    except Invalid as wrong:
        faults += wrong.problems
        return
    if isinstance(record, Build | Upload) and not lasting(record):
        faults.append(f"{path}: nobody can go on with what is {record.state}; leave it out")
        return
    yield Create(path, record)


def _differences(view: ImageView, wanted: Sequence[Create]) -> Iterator[str]:
    """What the image has that the document has not, or has otherwise."""
    records = {change.path: change.data for change in wanted}
    there: dict[str, Record] = {paths.build(view.name, build.id): build.record for build in view.builds}
    for upload in imaging.uploads_of(view):
        there[paths.upload(view.name, upload.build, upload.provider, upload.id)] = upload.record
    if view.pause is not None and paths.pause(view.name) in records:
        there[paths.pause(view.name)] = view.pause.record
    for path, record in there.items():
        if records.get(path) != record:
            how = "is not in the document" if path not in records else "is not the same in the document"
            yield f"image {view.name} exists, and {path.removeprefix(paths.IMAGES + '/')} {how}; leave the image out"


def _there(opened: Session, whole: Sequence[Create]) -> set[str]:
    found = opened.get_many([change.path for change in whole])
    return {znode.path for znode in found if znode is not None}


def _write(opened: Session, name: str, missing: Sequence[Create]) -> None:
    if len(missing) > limits.TRANSACTION_CHANGES:  # all or nothing
        raise Invalid(f"image {name} has {len(missing)} records, more than one transaction may hold; delete old builds")
    opened.ensure(paths.builds(name))
    _raise(opened, paths.builds(name), [change.path for change in missing if isinstance(change.data, Build)])
    opened.commit(missing)


def _number(opened: Session, whole: Sequence[Create]) -> None:
    """Later uploads get higher numbers than those that came."""
    uploads = [change.path for change in whole if isinstance(change.data, Upload)]
    for parent in dict.fromkeys(path.rpartition("/")[0] for path in uploads):
        _raise(opened, parent, [path for path in uploads if path.rpartition("/")[0] == parent])


def _raise(opened: Session, parent: str, children: Sequence[str]) -> None:
    from nodepool_ocb.store.sequence import raise_beyond

    if children:
        raise_beyond(opened, parent, max(int(path[-10:]) for path in children))

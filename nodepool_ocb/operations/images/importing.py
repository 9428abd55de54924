"""``image import``: the records of a document of ``image export`` are written."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.images.rules import ImageView
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.images import Build, Pause, Upload
from nodepool_ocb.model.records import Create, Json, Record
from nodepool_ocb.operations.images import finding
from nodepool_ocb.operations.images.exporting import Exported, lasting
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Step, Steps
from nodepool_ocb.operations.reads.images import RaiseNumbers, ReadImages, RecordFromJson
from nodepool_ocb.operations.reads.znodes import ReadExisting

_ID: Final = re.compile(r"[0-9]{10}")
_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")

_Creations: TypeAlias = Generator[Step, Any, list[Create]]


class ImageImport(Operation[Explained], frozen=True, kw_only=True):
    """Write the records of exported images, each image in one transaction.

    Raises Invalid with every fault of an image, and in Nodepool's tree. Raises Conflict for an image that exists, unless the
    document has all its records and they are equal: then the missing records are written.
    """

    noun = "image"
    verb = "import"
    right = Right.ADMIN
    reads = (ReadImages, RecordFromJson, ReadExisting, RaiseNumbers)
    writes = ("build", "pause", "upload")

    images: dict[str, Exported]

    def decide(self, situation: Situation) -> Steps[Explained]:
        if situation.settings.layout == "nodepool":  # to raise a number, it would create znodes at the depth of records
            raise Invalid("image import: the records are in Nodepool's tree; first: nodepool import-image-data FILE")
        known = yield from finding.load()
        wanted: dict[str, list[Create]] = {}
        for name, exported in self.images.items():
            wanted[name] = yield from _creations(name, exported)
        refused = [fault for name in wanted if name in known for fault in _differences(known[name], wanted[name])]
        if refused:
            raise Conflict("\n".join(refused))
        for name, whole in wanted.items():
            existing = yield from ReadExisting(tuple(change.path for change in whole))
            missing = [change for change in whole if change.path not in existing]
            if situation.call.dry_run:
                yield missing
                continue
            if missing:
                yield from _write(name, missing)
            yield from _number(whole)
        return Explained()


def _creations(name: str, exported: Exported) -> _Creations:
    """All creations of an image; raises Invalid with every fault."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise Invalid(f"images: {name!r} cannot be the name of an image; rename it in the document")
    faults: list[str] = []
    made: list[Create] = []
    if exported.pause is not None:
        made += yield from _record(Pause, paths.pause(name), exported.pause, faults)
    for id, fields in sorted(exported.builds.items()):
        if not _ID.fullmatch(id):
            faults.append(f"{name}: {id!r} is no id of a build; it has ten digits")
            continue
        own = {field: value for field, value in fields.items() if field != "uploads"}
        made += yield from _record(Build, paths.build(name, id), own, faults)
        made.append(Create(paths.build_providers(name, id)))
        made += yield from _uploads(name, id, fields.get("uploads", {}), faults)
    if faults:
        raise Invalid(faults)
    return made


def _uploads(name: str, build: str, uploads: Json, faults: list[str]) -> _Creations:
    made: list[Create] = []
    try:
        typed = msgspec.convert(uploads, dict[str, dict[str, dict[str, Json]]])
    except msgspec.ValidationError as error:
        faults.append(f"{name}-{build}: uploads: {error}; correct them in the document")
        return made
    for provider, records in sorted(typed.items()):
        if not _NAME.fullmatch(provider) or provider in (".", ".."):
            faults.append(f"{name}-{build}: {provider!r} cannot be the name of a provider; rename it in the document")
            continue
        container = paths.uploads(name, build, provider)
        made += [Create(container.rpartition("/")[0]), Create(container)]
        for id, fields in sorted(records.items()):
            if _ID.fullmatch(id):
                made += yield from _record(Upload, paths.upload(name, build, provider, id), fields, faults)
            else:
                faults.append(f"{name}-{build} {provider}: {id!r} is no id of an upload; it has ten digits")
    return made


def _record(kind: type[Record], path: str, fields: dict[str, Json], faults: list[str]) -> _Creations:
    """The creation of one record; none, and more ``faults``, for a record that may not be imported."""
    record = yield from RecordFromJson(kind, path, fields)
    if isinstance(record, Invalid):
        faults += record.problems
        return []
    if isinstance(record, Build | Upload) and not lasting(record):
        faults.append(f"{path}: a build or upload that is {record.state} cannot be imported; leave it out")
        return []
    return [Create(path, record)]


def _differences(view: ImageView, wanted: Sequence[Create]) -> Iterator[str]:
    """A sentence for each record of the image that the document lacks, or has with another value."""
    records = {change.path: change.data for change in wanted}
    existing: dict[str, Record] = {paths.build(view.name, build.id): build.record for build in view.builds}
    for upload in finding.uploads_of(view):
        existing[finding.path_of(view.name, upload)] = upload.record
    if view.pause is not None and paths.pause(view.name) in records:
        existing[paths.pause(view.name)] = view.pause.record
    for path, record in existing.items():
        if records.get(path) != record:
            how = "is not in the document" if path not in records else "is not the same in the document"
            yield f"image {view.name} exists, and {path.removeprefix(paths.IMAGES + '/')} {how}; leave the image out"


def _write(name: str, missing: Sequence[Create]) -> Steps[None]:
    if len(missing) > limits.TRANSACTION_CHANGES:  # all or nothing
        raise Invalid(f"image {name} has {len(missing)} records, more than one transaction may hold; delete old builds")
    builds = [change.path for change in missing if isinstance(change.data, Build)]
    yield from _raised(paths.builds(name), builds)
    yield missing


def _number(whole: Sequence[Create]) -> Steps[None]:
    """Later uploads get higher numbers than the imported ones."""
    uploads = [change.path for change in whole if isinstance(change.data, Upload)]
    for parent in dict.fromkeys(path.rpartition("/")[0] for path in uploads):
        yield from _raised(parent, [path for path in uploads if path.rpartition("/")[0] == parent])


def _raised(parent: str, children: Sequence[str]) -> Steps[None]:
    yield from RaiseNumbers(parent, max((int(path[-10:]) for path in children), default=None))

"""The document that ``nodepool export-image-data`` writes, as records of images. Pure.

It maps paths of ZooKeeper to their content, as text: ``/nodepool/images/IMAGE/builds/ID``, below that
``/providers/PROVIDER/images/ID``, and ``/nodepool/images/IMAGE/pause``. Builds and uploads that are under way or being
deleted are left out. The files of builds count as removed, because their checksums are not known. Uploads have no stamp, so
no builder deletes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.states import BuildEvent, UploadEvent, new_build, new_upload
from nodepool_ocb.model.images import Build, BuildState, Pause, Upload, UploadState

ROOT: Final = "/nodepool/images/"
FORMAT: Final = "qcow2"  # of an upload that does not say

_PATH: Final = re.compile(
    re.escape(ROOT)
    + "(?P<image>[^/]+)/(?:(?P<pause>pause)|builds/(?P<build>[^/]+)(?:/providers/(?P<provider>[^/]+)/images/(?P<upload>[^/]+))?)"
)
_NUMBER: Final = re.compile("[0-9]{10}")
_BUILDS: Final[Mapping[str, BuildEvent]] = {  # by the state that Nodepool's document has
    BuildState.READY: BuildEvent.IMPORT_READY,
    BuildState.FAILED: BuildEvent.IMPORT_FAILED,
}


class NodepoolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of Nodepool: of a build, or of an upload."""

    state: str
    state_time: float
    builder: str | None = None
    builder_id: str | None = None
    formats: str = ""  # with commas between them
    format: str | None = None
    external_id: str | None = None
    external_name: str | None = None
    username: str | None = None
    python_path: str | None = None
    shell_type: str | None = None


class NodepoolImage(msgspec.Struct):
    """An image: records by id, those of uploads by build and provider."""

    pause: Pause | None = None
    builds: dict[str, Build] = {}
    uploads: dict[str, dict[str, dict[str, Upload]]] = {}


def is_nodepools(document: object) -> bool:
    """Whether a document is one of Nodepool."""
    return isinstance(document, dict) and bool(document) and all(str(key).startswith(ROOT) for key in document)


def taken(document: Mapping[str, object]) -> dict[str, NodepoolImage]:
    """The images of a document of Nodepool. Raises Invalid with every fault."""
    faults: list[str] = []
    images: dict[str, NodepoolImage] = {}
    builds: dict[str, dict[str, NodepoolRecord]] = {}
    uploads: dict[str, dict[tuple[str, str], dict[str, NodepoolRecord]]] = {}
    for path, text in sorted(document.items()):
        found = _PATH.fullmatch(path)
        if found is None:
            faults.append(f"{path}: no path of an image, a build or an upload; leave it out")
            continue
        image = images.setdefault(found["image"], NodepoolImage())
        if found["pause"]:
            image.pause = Pause(by="nodepool")
        elif said := _said(path, text, faults):
            below = uploads.setdefault(found["image"], {}).setdefault((found["build"], found["provider"]), {})
            of = below if found["upload"] else builds.setdefault(found["image"], {})
            of[found["upload"] or found["build"]] = said
    if faults:
        raise Invalid(faults)
    for name, image in images.items():
        _fill(name, image, builds.get(name, {}), uploads.get(name, {}))
    return images


def _said(path: str, text: object, faults: list[str]) -> NodepoolRecord | None:
    try:
        return msgspec.json.decode(str(text), type=NodepoolRecord)
    except msgspec.DecodeError as error:
        faults.append(f"{path}: {error}; correct it, or leave it out")
        return None


def _fill(
    name: str,
    image: NodepoolImage,
    builds: Mapping[str, NodepoolRecord],
    uploads: Mapping[tuple[str, str], Mapping[str, NodepoolRecord]],
) -> None:
    lasting = {id: said for id, said in builds.items() if said.state in _BUILDS}
    for id, number in _numbers(lasting).items():
        image.builds[number] = _build(name, number, lasting[id])
        for (build, provider), found in uploads.items():
            ready = {key: said for key, said in found.items() if said.state == UploadState.READY and said.external_id}
            if build == id and ready:
                records = {new: _upload(ready[old], lasting[id]) for old, new in _numbers(ready).items()}
                image.uploads.setdefault(number, {})[provider] = records


def _numbers(found: Mapping[str, NodepoolRecord]) -> dict[str, str]:
    """Old id → new id: the same if all are numbers of ten digits; else numbers in the order of their times."""
    if all(_NUMBER.fullmatch(id) for id in found):
        return {id: id for id in found}
    return {id: f"{number:010}" for number, id in enumerate(_in_order(found), start=1)}


def _in_order(found: Mapping[str, NodepoolRecord]) -> Iterable[str]:
    return sorted(found, key=lambda id: (found[id].state_time, id))


def _build(name: str, id: str, said: NodepoolRecord) -> Build:
    formats = tuple(sorted(filter(None, said.formats.split(","))))
    return new_build(
        _BUILDS[said.state],
        said.state_time,
        builder=said.builder or "nodepool",
        builder_id=said.builder_id or "nodepool",
        filename=f"{name}-{id}",
        started=said.state_time,
        formats=formats,
        removed=formats,
        username=said.username,
        python_path=said.python_path,
        shell_type=said.shell_type,
    )


def _upload(said: NodepoolRecord, build: NodepoolRecord) -> Upload:
    return new_upload(
        UploadEvent.IMPORT_READY,
        said.state_time,
        format=said.format or build.formats.partition(",")[0] or FORMAT,
        external_id=said.external_id,
        external_name=said.external_name,
        builder=build.builder,
        username=said.username,
        python_path=said.python_path,
        shell_type=said.shell_type,
    )

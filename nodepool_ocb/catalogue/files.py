"""Barclamps on disk: documents, with their faults, and the scripts beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nodepool_ocb.catalogue import costs, scripts
from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.errors import Invalid, NotFound

Script = str | None | tuple[str, ...]  # the text, or the problems of a script that cannot be used


class BarclampFile(msgspec.Struct, frozen=True):
    """A file as it was read. Without a ``document`` it could not be read, for the reasons in ``problems``."""

    document: Document | None
    problems: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()  # of single parts
    scripts: Mapping[int, Mapping[str, Script]] = {}  # by the number of the role, and its key: ``script`` or ``check``

    @property
    def refused(self) -> set[Key]:
        """The parts of the document that are not to be read: single roles, ``roles``, ``attribs``, or () for all of it."""
        return _refused(self.faults)


def read(sources: Iterable[Path | str]) -> tuple[BarclampFile, ...]:
    """The files, and the ``*.yml`` and ``*.yaml`` files of directories.

    Raises NotFound for a file that does not exist or a directory without documents.
    """
    return tuple(_read(path) for path in _files(sources))


def _files(sources: Iterable[Path | str]) -> list[Path]:
    files: list[Path] = []
    for source in map(Path, sources):
        found = sorted(path for path in source.glob("*.y*ml") if path.suffix in (".yml", ".yaml"))
        if source.is_dir() and not found:
            raise NotFound(f"{source} holds no barclamp; name a directory with files *.yml or *.yaml")
        if not source.exists():
            raise NotFound(f"{source} does not exist; check the path")
        files += found if source.is_dir() else [source]
    return list(dict.fromkeys(files))


def _read(path: Path) -> BarclampFile:
    try:
        document, broken = documents.load_what_can_be_read(path)
    except Invalid as wrong:
        return BarclampFile(None, wrong.problems)
    file = checked(BarclampFile(document, (), tuple(broken)))
    return replace(file, scripts=dict(_scripts(document, file.refused, path.parent)))


def checked(file: BarclampFile) -> BarclampFile:
    """The file with all faults by the schema. A client may send a document without the faults that it has."""
    from nodepool_ocb.documents.schema import faults  # jsonschema takes long to import

    if file.document is None:
        return file
    keys = {fault.key for fault in file.faults}
    return replace(
        file,
        faults=(*file.faults, *(each for each in faults(file.document, costs.SCHEMA) if each.key not in keys)),
    )


def _refused(faults: Iterable[Fault]) -> set[Key]:
    return {costs.part(fault.key) for fault in faults if not costs.nothing(fault)}


def _scripts(document: Document, refused: set[Key], folder: Path) -> Iterator[tuple[int, dict[str, Script]]]:
    if () in refused or ("roles",) in refused:
        return
    for number, raw in enumerate(document.value.get("roles") or []):
        if ("roles", number) in refused:
            continue
        found = dict[str, Script]()
        if raw.get("script") is not None or raw["jig"] == "script":
            found["script"] = _script(folder, raw, "script")
        if raw.get("check") not in (None, True):
            found["check"] = _script(folder, raw, "check")
        yield number, found


def _script(folder: Path, raw: Mapping[str, Any], key: str) -> Script:
    try:
        return scripts.find(folder, raw["name"], raw.get(key))
    except Invalid as wrong:
        return wrong.problems

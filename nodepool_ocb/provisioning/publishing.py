"""The material of a run that publishes documents, and the records of the documents that it published. Pure.

A run gets at most ``BATCH`` documents as one text, and gives back the digest of each that it activated. So a publication is
written in the transaction of the run's end, also if another annealer adopted the run. The remaining documents are due, and the
noderole runs again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.ranges import is_node
from nodepool_ocb.model.records import Change, Create, Delete, Json, Set
from nodepool_ocb.provisioning import publications
from nodepool_ocb.provisioning.servers import listening

BATCH: Final = 200  # documents of one run: their records are one transaction
_DIGEST_CHARACTERS: Final = 64
_DIRECTORY_CHARACTERS: Final = 64
_PATH: Final = re.compile(r"/[A-Za-z0-9._/-]{1,200}")
_ADDRESS: Final = re.compile(r"http://[A-Za-z0-9.:\[\]-]{1,100}")


def material(world: World, noderole: str, memory: publications.Digests | None = None) -> Mapping[str, Json]:
    """Attributes for a run of this noderole: the documents that are due, as one text; ``memory`` keeps digests.

    Lines ``N NAME DIGEST`` begin a document, ``F PATH`` a file of it, and ``|TEXT`` is a line of that file.
    """
    due = list(itertools.islice(publications.due(world, noderole, memory), BATCH))
    text = "".join(line for name in due for line in _lines(world, noderole, name))
    return {"provisioner": {"documents": text}}


def _lines(world: World, noderole: str, name: str) -> Iterator[str]:
    document = publications.wanted(world, noderole, name)
    yield f"N {name} {document.digest or '-'}\n"
    for path, text in document.files.items():
        yield f"F {path}\n"
        yield from (f"|{line}\n" for line in text.splitlines())


def records(world: World, noderole: str, returned: Mapping[str, Json], now: float) -> list[Change]:
    """The records of the documents that a run says it has published; other values that it gives back are left out."""
    given = returned.get("provisioner")
    published = given.get("published") if isinstance(given, dict) else None
    directory = given.get("directory") if isinstance(given, dict) else None
    if not isinstance(published, dict) or not isinstance(directory, str) or len(directory) > _DIRECTORY_CHARACTERS:
        return []
    assert isinstance(given, dict), "it has them"
    noted = {"address": _address(given.get("http")), "log": _log(given.get("log")), **listening.noted(given, now)}
    changes: list[Change] = [*_publisher(world, noderole, directory, noted, now)]
    for name, digest in itertools.islice(published.items(), BATCH):
        if (
            isinstance(digest, str)
            and len(digest) <= _DIGEST_CHARACTERS
            and (is_node(name) or name == publications.OWN)
        ):
            changes += _publication(world, noderole, name, Publication(digest=digest, directory=directory, at=now))
    return changes


def _publisher(world: World, noderole: str, directory: str, noted: Mapping[str, Any], now: float) -> Sequence[Change]:
    path, stored = paths.publisher(noderole), world.of(Publisher).get(noderole)
    if stored is None:
        return [Create(path, replace(Publisher(directory=directory, listened=now), **noted))]
    after = replace(stored.record, directory=directory, **noted)
    return [Set(path, after, stored.version)] if after != stored.record else []


def _address(http: Json) -> str:
    """Of the HTTP server; empty if the value is no address."""
    return http if isinstance(http, str) and _ADDRESS.fullmatch(http) else ""


def _log(path: Json) -> str:
    """Of the requests; empty if the value is no path."""
    return path if isinstance(path, str) and _PATH.fullmatch(path) else ""


def _publication(world: World, noderole: str, name: str, record: Publication) -> Sequence[Change]:
    path, stored = paths.publication(noderole, name), world.of(Publication).get((noderole, name))
    if record.digest in ("", "-"):
        return [Delete(path, stored.version)] if stored is not None else []
    view = world.nodes.get(name)
    if view is not None and view.record is not None:
        record = Publication(
            digest=record.digest,
            directory=record.directory,
            version=max(view.version, 0),
            bootenv=view.record.bootenv,
            at=record.at,
        )
    return [Set(path, record, stored.version)] if stored is not None else [Create(path, record)]

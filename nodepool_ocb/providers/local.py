"""Driver local: images are copied into a directory. For laboratories, and to see uploads without a cloud.

``<external_name>.<format>`` is the image; beside it ``<external_name>.<format>.json`` holds the stamp. The stamp is
written before the copy begins and deleted after the image, so ``list`` finds each file that was begun. The image bears
its name only when it is whole and on the disk. It is a copy of its own: no link, no shared blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.documents import files
from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.provider import Item, Kept, Refused, Sent, not_ours
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.providers.transfer import BLOCK_BYTES, GivenUp, Stream, why_give_up

OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {"directory": {"type": "string", "pattern": "^/", "description": "an absolute path"}},
    "required": ["directory"],
    "additionalProperties": False,
}
GRACE_SECONDS: Final = 3600.0  # after which a temporary file without writes is a leftover
PART: Final = ".part"
SIDE_BYTES: Final = 1 << 20


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file beside an image."""

    external_name: str
    stamp: dict[str, str]
    meta: dict[str, str]
    sha256: str
    size: int


class Local:
    """The directory is made when it is first written to."""

    def __init__(self, provider: Provider) -> None:
        self._name = provider.name
        self._directory = Path(provider.options["directory"])

    @staticmethod
    def faults(provider: Provider) -> list[str]:
        return faults_in_value(OPTIONS, provider.options)

    def upload(self, item: Item) -> Sent | Refused:
        external_id = f"{item.external_name}.{item.format}"
        if not _plain(external_id):
            return Refused(f"`{external_id}` cannot be the name of a file", lasting=True)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            taken = self._stamp(external_id, item)
            if taken is not None:
                return taken
            refused = self._copy(external_id, item)
        except OSError as error:
            refused = self._refused(error)
        if refused is not None:
            self.delete(external_id, item.stamp)
            return refused
        return Sent(external_id)

    def verify(self, external_id: str, item: Item) -> Refused | None:
        deadline = time.monotonic() + item.timeout_seconds
        digest, size = hashlib.sha256(), 0
        if (self._directory / external_id).exists() and (foreign := self._not_ours(external_id, item.stamp)):
            return foreign
        try:
            with (self._directory / external_id).open("rb") as file:
                while block := file.read(BLOCK_BYTES):
                    refused = why_give_up(item, deadline)
                    if refused is not None:
                        return refused
                    digest.update(block)
                    size += len(block)
        except FileNotFoundError:
            return Refused(f"provider {self._name} has no {external_id}")
        except OSError as error:
            return self._refused(error)
        if (size, digest.hexdigest()) != (item.size, item.sha256):
            return Refused(f"{external_id} of provider {self._name} differs from the sent file: it has {size} bytes, "
                           f"sha256 {digest.hexdigest()}")  # fmt: skip
        return None

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        if not _plain(external_id):
            return Refused(
                f"provider {self._name} can have no `{external_id}`; see: nodepool-ocb upload leaks", lasting=True
            )
        names = (external_id, f".{external_id}{PART}", f"{external_id}.json")  # the stamp goes last
        there = [path for path in (self._directory / name for name in names) if os.path.lexists(path)]
        if there and (foreign := self._not_ours(external_id, stamp)):
            return foreign
        try:
            for path in there:
                path.unlink(missing_ok=True)
        except OSError as error:
            return self._refused(error)
        return None

    def list(self) -> Iterator[Kept]:
        try:
            entries = sorted(os.scandir(self._directory), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(self._refused(error).reason) from error
        for entry in entries:
            if entry.name.endswith(PART):
                _remove_if_old(entry)
            elif entry.name.endswith(".json"):
                kept = _kept(Path(entry.path))
                if kept is not None:
                    yield kept

    def close(self) -> None: ...

    def _not_ours(self, external_id: str, stamp: Stamp) -> Refused | None:
        side = _side(self._directory / f"{external_id}.json")
        return not_ours(external_id, self._name, {**side.meta, **side.stamp} if side else {}, stamp)

    def _stamp(self, external_id: str, item: Item) -> Refused | None:
        """Write the stamp, whole or not at all; None when it is ours."""
        side = _Side(
            external_name=item.external_name,
            stamp=item.stamp.labels,
            meta=dict(item.meta),
            sha256=item.sha256,
            size=item.size,
        )
        final = self._directory / f"{external_id}.json"
        part = self._directory / f".{external_id}.json.{os.getpid()}{PART}"
        try:
            with part.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(side)) + b"\n")
                os.fsync(file.fileno())
            os.link(part, final)  # unlike a renaming, this replaces no file
        except FileExistsError:
            if _stamp_of(final) != item.stamp:
                return Refused(
                    f"{final} was not written by this builder and stays; find the other program that writes to this directory",
                    lasting=True,
                )
        finally:
            part.unlink(missing_ok=True)
        return None

    def _copy(self, external_id: str, item: Item) -> Refused | None:
        part = self._directory / f".{external_id}{PART}"
        try:
            with Stream(item) as stream, part.open("wb") as copy:
                while block := stream.read():
                    copy.write(block)
                copy.flush()
                os.fsync(copy.fileno())
        except GivenUp as given_up:
            return given_up.refused
        part.replace(self._directory / external_id)
        self._names_to_disk()
        return None

    def _names_to_disk(self) -> None:
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _refused(self, error: OSError) -> Refused:
        return Refused(f"provider {self._name}: {error.filename or self._directory}: {error.strerror}")


def _plain(name: str) -> bool:
    """Whether it names a file in the directory, and no hidden one."""
    return "/" not in name and "\0" not in name and not name.startswith(".")


def _side(path: Path) -> _Side | None:
    """The contents of a file beside an image; None if the file is not ours."""
    try:
        return msgspec.json.decode(files.read(path, SIDE_BYTES), type=_Side)
    except (OSError, msgspec.DecodeError):
        return None


def _stamp_of(path: Path) -> Stamp | None:
    side = _side(path)
    return None if side is None else Stamp.of(side.stamp)


def _kept(path: Path) -> Kept | None:
    side = _side(path)
    if side is None:
        return None
    since = None
    with contextlib.suppress(OSError):
        since = path.stat().st_mtime
    return Kept.stamped(path.name.removesuffix(".json"), side.external_name, side.stamp, since)


def _remove_if_old(entry: os.DirEntry[str]) -> None:
    with contextlib.suppress(OSError):  # another process removed it
        if entry.stat().st_mtime < time.time() - GRACE_SECONDS:
            os.unlink(entry.path)

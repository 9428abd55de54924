"""Driver admin-node: a build becomes files below the HTTP root of one admin node, over SSH.

``images/IMAGE/BUILD`` is a link to ``images/.uploads/NAME``, the folder of one upload: vmlinuz, initrd and root.squashfs of
format pxe, or disk.tar, or disk.raw; with SHA256SUMS. The link is made when the admin node has compared all bytes.
``images/IMAGE/newest`` names the newest build. A dead admin node is a failed upload of its own provider, which is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import msgspec

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.adminnode.docroot import Docroot, DocrootAnswer, DocrootSettings, NoAnswer
from nodepool_ocb.providers.provider import Item, Kept, Refused, Sent, not_ours
from nodepool_ocb.providers.stamp import Stamp
from nodepool_ocb.providers.transfer import GivenUp, Stream, why_give_up

FORMATS: Final = ("pxe", "raw", "tar")
DIRECTORY: Final = "/srv/nodepool-ocb/http"  # the docroot of the role provisioner-server, by its default
KEY_FILE: Final = "/etc/nodepool-ocb/id_ed25519"
#: A name in a path on the admin node; no shell reads it.
PLAIN: Final = r"^[A-Za-z0-9_@~+-][A-Za-z0-9_.@~+-]{0,254}$"
_TEXT: Final[Json] = {"type": "string", "minLength": 1}
OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {
        "address": {**_TEXT, "description": "the admin node: HOST or HOST:PORT"},
        "username": _TEXT,
        "key-file": {"type": "string", "pattern": "^[/~]", "description": "an absolute path"},
        "host-keys": {"type": "array", "items": _TEXT, "minItems": 1},
        "directory": {"type": "string", "pattern": "^/", "description": "an absolute path"},
    },
    "required": ["address", "host-keys"],
    "additionalProperties": False,
}


class UploadNote(msgspec.Struct, frozen=True, kw_only=True):
    """The file stamp.json of an upload."""

    external_name: str
    stamp: dict[str, str]
    meta: dict[str, str]
    sha256: str
    size: int

    @property
    def labels(self) -> dict[str, str]:
        """The meta and the stamp."""
        return {**self.meta, **self.stamp}


class AdminNode:
    """Each method logs in, acts and logs out: an idle builder holds no connection."""

    def __init__(self, provider: Provider) -> None:
        options = provider.options
        self._name = provider.name
        self._docroot = Docroot(
            DocrootSettings(
                address=options["address"],
                user=options.get("username", "root"),
                key_file=options.get("key-file", KEY_FILE),
                host_keys=tuple(options["host-keys"]),
                directory=options.get("directory", DIRECTORY),
            )
        )

    @staticmethod
    def faults(provider: Provider) -> list[str]:
        return faults_in_value(OPTIONS, provider.options)

    def upload(self, item: Item) -> Sent | Refused:
        name = item.external_name
        if item.format not in FORMATS:
            return Refused(f"an admin node serves {', '.join(FORMATS)}, and no {item.format}", lasting=True)
        deadline = time.monotonic() + item.timeout_seconds
        try:
            refused = self._begin(item)
            if refused is not None:
                return refused
            refused = self._send(item, deadline)
        except GivenUp as given_up:
            refused = given_up.refused
        except NoAnswer as silent:
            refused = self._refused(silent)
        if refused is not None:
            self.delete(name, item.stamp)
            return refused
        return Sent(name)

    def verify(self, external_id: str, item: Item) -> Refused | None:
        try:
            note = self._note(external_id)
            if note is None:
                return Refused(f"provider {self._name} has no {external_id}")
            if foreign := not_ours(external_id, self._name, note.labels, item.stamp):
                return foreign
            if (note.sha256, note.size) != (item.sha256, item.size):
                return Refused(f"{external_id} of provider {self._name} was made of another file: sha256 {note.sha256}")
            answer = self._ask("check", external_id, seconds=item.timeout_seconds)
        except NoAnswer as silent:
            return self._refused(silent)
        return None if answer.word == "same" else self._refusal(external_id, answer)

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        if not _plain(external_id):
            return Refused(f"provider {self._name} can have no `{external_id}`", lasting=True)
        try:
            note = self._note(external_id)
            if note is None:
                return None
            if foreign := not_ours(external_id, self._name, note.labels, stamp):
                return foreign
            found = Stamp.of(note.labels)
            assert found is not None, "it fits a whole stamp"
            answer = self._ask("remove", external_id, found.image, found.build)
        except NoAnswer as silent:
            return self._refused(silent)
        return None if answer.word == "removed" else self._refusal(external_id, answer)

    def list(self) -> Iterator[Kept]:
        try:
            answer = self._ask("list")
        except NoAnswer as silent:
            raise Unavailable(self._refused(silent).reason) from silent
        for line in answer.lines:
            _, _, name, since, text = line.split(" ", 4)
            note = _decoded(text)
            kept = note and Kept.stamped(name, note.external_name, note.labels, float(since))
            if kept:
                yield kept

    def close(self) -> None: ...

    def _begin(self, item: Item) -> Refused | None:
        """The stamp, whole or not at all; None when it is ours."""
        for name in (item.external_name, item.stamp.image, item.stamp.build):
            if not _plain(name):
                return Refused(f"`{name}` cannot be the name of a file", lasting=True)
        note = UploadNote(
            external_name=item.external_name,
            stamp=item.stamp.labels,
            meta=dict(item.meta),
            sha256=item.sha256,
            size=item.size,
        )
        answer = self._ask("begin", item.external_name, question=msgspec.json.encode(note) + b"\n")
        if answer.word == "begun":
            return None
        there = self._note(item.external_name) if answer.word == "taken" else None
        if there is not None and there.stamp == item.stamp.labels:
            return None
        return Refused(f"{item.external_name} exists at {self._name}, and is of another upload", lasting=True)

    def _send(self, item: Item, deadline: float) -> Refused | None:
        name = item.external_name
        with Stream(item) as stream:
            answer = self._docroot.send(
                ("receive", name, item.format, item.sha256), stream.read, lambda: why_give_up(item, deadline)
            )
        if isinstance(answer, Refused):
            return answer
        if answer.word != "received":
            return self._refusal(name, answer)
        answer = self._ask("publish", name, item.stamp.image, item.stamp.build)
        return None if answer.word == "published" else self._refusal(name, answer)

    def _note(self, external_id: str) -> UploadNote | None:
        """Raises NoAnswer."""
        if not _plain(external_id):
            return None
        lines = self._ask("stamp", external_id).all
        return next((note for line in lines if (note := _decoded(line)) is not None), None)

    def _ask(self, *words: str, question: bytes = b"", seconds: float | None = None) -> DocrootAnswer:
        return self._docroot.ask(words, question, seconds)

    def _refused(self, silent: NoAnswer) -> Refused:
        return Refused(f"provider {self._name}: {silent}")

    def _refusal(self, external_id: str, answer: DocrootAnswer) -> Refused:
        return Refused(f"{external_id} of provider {self._name}: {answer.reason}")


def _plain(name: str) -> bool:
    return not faults_in_value({"type": "string", "pattern": PLAIN}, name)


def _decoded(text: str) -> UploadNote | None:
    try:
        return msgspec.json.decode(text, type=UploadNote)
    except msgspec.MsgspecError:
        return None

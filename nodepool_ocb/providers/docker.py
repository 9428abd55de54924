"""Driver docker: a tar becomes an image of a container engine, as `docker import` makes it.

The stamp is in the image's labels, so the engine makes both together or none. The external id is the engine's
(``sha256:...``). The tag is ``[<repository>/]<image>:<build>-<upload>-<provider>-<key>``, which no other image ever
gets. An image that a container uses is not deleted; the driver uses no force.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.model.records import Json
from nodepool_ocb.providers.containers.api import (
    ANSWER_SECONDS,
    REPOSITORY,
    URL,
    connected,
    errors,
    require,
    status,
    words,
)
from nodepool_ocb.providers.provider import Item, Kept, Refused, Sent, not_ours
from nodepool_ocb.providers.stamp import STAMP, Stamp
from nodepool_ocb.providers.transfer import GivenUp, Stream, attended

if TYPE_CHECKING:
    from docker import DockerClient

OPTIONS: Final[Json] = {
    "type": "object",
    "properties": {"url": URL, "repository": REPOSITORY},
    "additionalProperties": False,
}
TAG_CHARACTERS: Final = 100  # before the key


class Docker:
    """Each call opens a connection of its own; the engine is near."""

    def __init__(self, provider: Provider) -> None:
        require(provider.name)
        self._name = provider.name
        self._url: str | None = provider.options.get("url")
        self._repository: str | None = provider.options.get("repository")

    @staticmethod
    def faults(provider: Provider) -> list[str]:
        found = faults_in_value(OPTIONS, provider.options)
        if provider.format != "tar":
            found.append(f"driver docker takes format tar, not {provider.format}")
        return found

    def upload(self, item: Item) -> Sent | Refused:
        broken = [key for key, value in item.meta.items() if "\n" in key + value]
        if broken:
            return Refused(
                f"meta {broken[0]} has a line break, which no label may have; remove it in nodepool.yaml", lasting=True
            )
        return attended(item, lambda: self._send(item), lambda: self._undo(item))

    def verify(self, external_id: str, item: Item) -> Refused | None:
        try:
            with self._engine() as engine:
                image = _inspected(engine, external_id)
        except errors() as error:
            return self._refused(error)
        foreign = not_ours(external_id, self._name, _labels_on(image), item.stamp)
        if foreign is not None:
            return foreign
        layers = image["RootFS"].get("Layers", [])
        if layers != [f"sha256:{item.sha256}"]:  # an engine names a layer by the sum of its tar
            return Refused(f"image {external_id} of provider {self._name} was made of something else: {layers}")
        return None

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        try:
            with self._engine() as engine:
                foreign = not_ours(external_id, self._name, _labels_on(_inspected(engine, external_id)), stamp)
                if foreign is not None:
                    return foreign
                users = engine.containers.list(all=True, filters={"ancestor": external_id}, ignore_removed=True)
                if users:
                    names = ", ".join(sorted(str(container.name) for container in users))
                    return Refused(
                        f"image {external_id} of provider {self._name} is used by container {names}; remove that first"
                    )
                _remove(engine, external_id)
        except errors() as error:
            return None if status(error) == 404 else self._refused(error)
        return None

    def list(self) -> Iterator[Kept]:
        try:
            with self._engine() as engine:
                images = engine.api.images(filters={"label": f"{STAMP}cluster"})
        except errors() as error:
            raise Unavailable(self._refused(error).reason) from error
        for image in images:
            tag = next(iter(image["RepoTags"] or []), image["Id"])
            kept = Kept.stamped(image["Id"], tag, image["Labels"] or {}, image.get("Created"))
            if kept is not None:
                yield kept

    def close(self) -> None: ...

    def _send(self, item: Item) -> Sent | Refused:
        repository = "/".join(filter(None, [self._repository, item.stamp.image.lower()]))
        try:
            with Stream(item) as stream:
                try:
                    with self._engine(item.timeout_seconds + ANSWER_SECONDS) as engine:
                        answer = engine.api.import_image(
                            src=stream,
                            repository=repository,
                            tag=_tag(item.stamp),
                            changes=[_label(key, value) for key, value in sorted(item.labels.items())],
                        )
                    sent = self._answered(answer)
                except errors() as error:
                    sent = stream.fault or self._refused(error)
        except GivenUp as given_up:
            sent = given_up.refused
        if isinstance(sent, Refused):
            self._undo(item)
        return sent

    def _answered(self, answer: str) -> Sent | Refused:
        """The result in the engine's lines of JSON: an id, or an error that came after the status of HTTP."""
        last: dict[str, Any] = json.loads(answer.strip().splitlines()[-1])
        if "error" in last:
            return Refused(f"provider {self._name}: {last['error']}", lasting="archive/tar:" in last["error"])
        return Sent(last["status"])

    def _undo(self, item: Item) -> None:
        """Delete the image of an upload with a lost answer."""
        with contextlib.suppress(Unavailable):
            for kept in self.list():
                if kept.stamp == item.stamp:
                    self.delete(kept.external_id, item.stamp)

    def _engine(self, timeout_seconds: float = ANSWER_SECONDS) -> AbstractContextManager[DockerClient]:
        return connected(self._url, timeout_seconds)

    def _refused(self, error: Exception) -> Refused:
        """The refusal that an error of the library means."""
        text = words(error)
        broken = "archive/tar:" in text  # the engine's message about a file that is no tar
        return Refused(f"provider {self._name}: {text}", lasting=broken or status(error) in (400, 401, 403))


def _inspected(engine: DockerClient, external_id: str) -> Json:
    api: Any = engine.api
    return api.inspect_image(external_id)


def _remove(engine: DockerClient, external_id: str) -> None:
    """Untag it; the engine removes an image with its last tag, and one without tags by its id."""
    tags = _inspected(engine, external_id)["RepoTags"]
    for tag in tags or [external_id]:
        engine.api.remove_image(tag)


def _labels_on(image: Json) -> Mapping[str, object]:
    labels: Mapping[str, object] = image["Config"]["Labels"] or {}
    return labels


def _tag(stamp: Stamp) -> str:
    """At most 128 letters, digits and ``_ . -``; the key keeps two from being the same where they are cut.

    >>> _tag(Stamp(cluster="c", provider="west+1", image="jammy", build="0000000001", upload="0000000000", key="5f0c"))
    '0000000001-0000000000-west_1-5f0c'
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{stamp.build}-{stamp.upload}-{stamp.provider}")
    return f"{readable[:TAG_CHARACTERS]}-{stamp.key}"


def _label(key: str, value: str) -> str:
    r"""The instruction of a Dockerfile that sets a label.

    >>> print(_label("motd", 'costs "5 $"'))
    LABEL "motd"="costs \"5 \$\""
    """

    def quoted(text: str) -> str:
        return '"' + "".join(f"\\{letter}" if letter in '\\"$' else letter for letter in text) + '"'

    return f"LABEL {quoted(key)}={quoted(value)}"

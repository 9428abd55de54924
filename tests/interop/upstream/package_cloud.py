"""Driver ``fake`` of images, for our builder: it sends each call to the fake cloud of Nodepool's package, in the test's process.

``builder_shim`` installs it by an entry point, as any package does. OCB_PACKAGE_CLOUD is the socket of that process
(``cloud_server``). Every call is a connection of its own: a name and arguments out, ``(True, answer)`` or ``(False, reason)``
back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Client
from typing import Any

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.images.nodepool import Provider
from nodepool_ocb.providers.provider import Item, Kept, Refused, Sent, not_ours
from nodepool_ocb.providers.stamp import Stamp


class PackageCloud:
    """One provider of the configuration of a test."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider.name

    @staticmethod
    def faults(provider: Provider) -> list[str]:
        del provider
        return []

    @staticmethod
    def takes(options: Mapping[str, object]) -> str | None:
        """The format of the provider's cloud."""
        done, answer = _ask("format", "", cloud=options.get("cloud"))
        return answer if done else None

    def upload(self, item: Item) -> Sent | Refused:
        done, answer = self._ask(
            "upload",
            image=item.stamp.image,
            name=item.external_name,
            file=str(item.file),
            format=item.format,
            meta=item.labels,
            md5=item.md5,
            sha256=item.sha256,
        )
        return Sent(answer) if done else Refused(answer)

    def verify(self, external_id: str, item: Item) -> Refused | None:
        labels = self._objects().get(external_id, ("", {}))[1]
        return not_ours(external_id, self._provider, labels, item.stamp)

    def delete(self, external_id: str, stamp: Stamp) -> Refused | None:
        found = self._objects().get(external_id)
        refused = not_ours(external_id, self._provider, found[1], stamp) if found else None
        if found is None or refused:
            return refused
        done, answer = self._ask("delete", name=found[0], id=external_id)
        return None if done else Refused(answer)

    def list(self) -> Iterable[Kept]:
        for external_id, (name, labels) in self._objects().items():
            if kept := Kept.stamped(external_id, name, labels):
                yield kept

    def close(self) -> None:
        """Nothing is kept open."""

    def _objects(self) -> dict[str, tuple[str, dict[str, str]]]:
        """External id → name and labels."""
        done, answer = self._ask("list")
        if not done:
            raise Unavailable(answer)
        return dict(answer)

    def _ask(self, call: str, **arguments: object) -> tuple[bool, Any]:
        return _ask(call, self._provider, **arguments)


def _ask(call: str, provider: str, **arguments: object) -> tuple[bool, Any]:
    try:
        with Client(os.environ["OCB_PACKAGE_CLOUD"], family="AF_UNIX") as connection:
            connection.send((call, provider, arguments))
            done, answer = connection.recv()
    except (OSError, EOFError) as gone:
        raise Unavailable(f"the clouds of the test do not answer: {gone}") from gone
    return done, answer

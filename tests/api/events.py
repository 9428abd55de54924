"""A client of event streams: one connection, read on a thread of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx

from nodepool_ocb.model.records import Json


class SeenEvent(NamedTuple):
    """An event as it came; ``id`` is the last one that was given."""

    name: str
    id: str
    data: Json


class EventClient:
    """Reads until it is closed, or the server ends the stream."""

    def __init__(self, address: str, token: str, path: str = "/v1/events", last: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last} if last is not None else {})
        self.seen: list[SeenEvent] = []
        self.last = last
        self._client = httpx.Client(base_url=address, timeout=httpx.Timeout(20.0, read=120.0), verify=False)
        self._answer = self._client.send(self._client.build_request("GET", path, headers=headers), stream=True)
        self.status = self._answer.status_code
        self.headers = self._answer.headers
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self._answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                self.last = fields.get("id", self.last)
                if "data" in fields:
                    self.seen.append(SeenEvent(fields["event"], self.last or "", json.loads(fields["data"])))
                fields = {}
        except (httpx.HTTPError, httpx.StreamError, RuntimeError):
            pass  # closed

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def of(self, name: str) -> list[Any]:
        """The data of the events of this name."""
        return [each.data for each in list(self.seen) if each.name == name]

    @property
    def numbers(self) -> list[int]:
        """Of the entries of people and annealers."""
        return [each["number"] for each in self.of("entry") if not each.get("pool")]

    @property
    def changes(self) -> list[Any]:
        """The changes of all state events."""
        return [change for each in self.of("state") for change in each["changes"]]

    def states(self) -> dict[tuple[str, str], Any]:
        """The newest change of each record. Fails for an older version after a newer one."""
        found: dict[tuple[str, str], Any] = {}
        for each in self.changes:
            key = each["kind"], each["name"]
            assert each["gone"] or key not in found or found[key]["zxid"] < each["zxid"], each
            found[key] = each
        return found

    def close(self) -> str:
        """The id of the last event."""
        with contextlib.suppress(OSError):  # else the reader waits for the next heartbeat
            self._answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(10.0)
        self._answer.close()
        self._client.close()
        last = self.last  # that the reader has seen to its end
        assert last is not None
        return last

    def wait(self, until: Callable[..., None], condition: Callable[[EventClient], object]) -> None:
        """Until a condition holds."""
        until(lambda: condition(self))

"""A relay of TCP connections that delays each direction, and may count the requests of clients of ZooKeeper."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from nodepool_ocb.model.records import Node

CHUNK_BYTES: Final = 1 << 16
START_SECONDS: Final = 10.0
PING: Final = "ping"
#: The requests of ZooKeeper's protocol, by the number in their header.
REQUESTS: Final = {
    -11: "close", 1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData", 8: "getChildren", 9: "sync", 11: PING,
    12: "getChildren2", 13: "check", 14: "multi", 15: "create2", 22: "multiRead", 100: "auth", 101: "setWatches",
    105: "setWatches2", 106: "addWatch",
}  # fmt: skip

Heard = Callable[[bytes], None]


class Relay:
    """Forwards a port of 127.0.0.1 of its own to each of the targets, until the end of the block.

    ``round_trip_seconds``: half of it is added to each direction; TCP's own handshake takes one more. ``tap`` is called
    for each new connection, and gives the function that is told the bytes of its client.
    """

    def __init__(
        self,
        targets: Sequence[tuple[str, int]],
        round_trip_seconds: float = 0.0,
        tap: Callable[[], Heard] | None = None,
    ) -> None:
        self._targets, self._round_trip, self._tap = targets, round_trip_seconds, tap
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="relay", daemon=True)
        self._servers: list[asyncio.Server] = []

    @property
    def ports(self) -> list[int]:
        """In the order of the targets."""
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    def in_front(self, records: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
        """The records of machines, which are the targets, with the addresses of this relay."""
        return [
            (fqdn, replace(node, addresses=(f"127.0.0.1:{port}",)))
            for (fqdn, node), port in zip(records, self.ports, strict=True)
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError(f"the relay did not listen within {START_SECONDS:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            for target in self._targets:
                made = asyncio.start_server(lambda r, w, to=target: self._connected(r, w, to), "127.0.0.1", 0)
                self._servers.append(self._loop.run_until_complete(made))
            self._ready.set()
            self._loop.run_forever()
        finally:
            for server in self._servers:
                server.close()
            self._loop.run_until_complete(self._end())
            self._loop.close()

    @staticmethod
    async def _end() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter, target: tuple[str, int]) -> None:
        await asyncio.sleep(self._round_trip)
        try:
            far, forth = await asyncio.open_connection(*target)
        except OSError:
            back.close()
            return
        for writer in (back, forth):
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        heard = self._tap() if self._tap is not None else None
        try:
            await asyncio.gather(self._pass_on(near, forth, heard), self._pass_on(far, back, None))
        except asyncio.CancelledError:  # the relay ends; the loop would report this as a fault
            return
        finally:
            back.close()
            forth.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: Heard | None) -> None:
        """Each piece arrives half a round trip after it was read, in order; reading does not wait for that."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arrival = asyncio.ensure_future(self._arrive(under_way, writer))
        data = b"the first"
        while data:
            try:
                data = await reader.read(CHUNK_BYTES)
            except OSError:
                data = b""
            if heard is not None:
                heard(data)
            under_way.put_nowait((time.monotonic() + self._round_trip / 2, data))
        await arrival

    @staticmethod
    async def _arrive(under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        data = b"the first"
        while data:
            due, data = await under_way.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            try:
                writer.write(data)
                await writer.drain()
            except OSError:  # the other end has gone; the reader of this side sees it as well
                break
        writer.close()


class Requests:
    """Counts the requests of clients of ZooKeeper by their kind: the tap of a relay in front of a server."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def __call__(self) -> Heard:
        """Of one connection. Its first frame has no header: it asks for the session.

        >>> requests = Requests()
        >>> heard = requests()
        >>> heard(bytes.fromhex("00000002ffff00000008fffffffe000000"))
        >>> heard(bytes.fromhex("0b00000009 00000001 00000004 00"))
        >>> sorted(requests.seen.items())
        [('getData', 1), ('ping', 1)]
        """
        held, begun = bytearray(), False

        def heard(data: bytes) -> None:
            nonlocal begun
            held.extend(data)
            while len(held) >= 4 and len(held) >= (end := 4 + int.from_bytes(held[:4])):
                if begun:
                    number = int.from_bytes(held[8:12], signed=True)
                    self.seen[REQUESTS.get(number, f"request {number}")] += 1
                begun = True
                del held[:end]

        return heard

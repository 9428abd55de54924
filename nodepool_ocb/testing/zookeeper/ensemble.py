"""A private ensemble of ZooKeeper servers. Its leader may be killed or frozen, and its members may be cut off.

Between any two members stands a proxy, so that one can be cut off from the others while its clients still reach it. If
no member must be cut off, elections are faster without proxies: a proxy accepts before the member behind it does.
``Ensemble`` is a context manager; nothing of it is left afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import permutations
from types import TracebackType
from typing import Final, Self

from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server, free_port

#: A member that has no leader makes the thread wait that has read a request: one for all clients would be too few.
WORKERS: Final = {"zookeeper.nio.numWorkerThreads": "4"}
LISTENS: Final = "127.0.0.1:{}:{}"  # the ports for followers and for elections


class Ensemble:
    """``size`` servers; a majority of them is enough.

    A member that hears nothing of the others for ``sync_ticks`` of ``tick_ms`` takes them for gone. ``proxied``: whether
    members can be cut off from one another.
    """

    def __init__(
        self, size: int = 3, *, tick_ms: int = 500, sync_ticks: int = 4, heap: str = "192m", proxied: bool = True
    ) -> None:
        numbers = range(1, size + 1)
        listening = {number: (free_port(), free_port()) for number in numbers}
        pairs = permutations(numbers, 2) if proxied else ()
        self._links = {(one, other): Proxy(*listening[other]) for one, other in pairs}
        self.members: list[Server] = []
        for number in numbers:
            places = {
                f"server.{other}": LISTENS.format(
                    *(links.ports if (links := self._links.get((number, other))) else own)
                )
                for other, own in listening.items()
            }
            settings = {"syncLimit": str(sync_ticks), "initLimit": str(4 * sync_ticks), **places}
            member = Server(fsync=False, heap=heap, tick_ms=tick_ms, settings=settings, properties=WORKERS)
            (member.directory / "data").mkdir()
            (member.directory / "data" / "myid").write_text(f"{number}\n")
            self.members.append(member)

    @property
    def hosts(self) -> str:
        """The connection string."""
        return ",".join(member.hosts for member in self.members)

    @property
    def ports(self) -> tuple[int, ...]:
        """On 127.0.0.1, where clients connect."""
        return tuple(port for member in self.members for port in member.ports)

    # -- leader and followers --

    def leader(self, timeout_seconds: float = 60.0) -> Server:
        """The member that leads, once one does; raises RuntimeError where none does in time."""
        deadline = time.monotonic() + timeout_seconds
        while (found := self._leading()) is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no server leads {self.hosts}")
            time.sleep(0.02)
        return found

    def followers(self) -> list[Server]:
        """The members that serve, and do not lead."""
        return [member for member in self.members if "Mode: follower" in member.ask("srvr", 0.5)]

    def _leading(self) -> Server | None:
        return next((member for member in self.members if "Mode: leader" in member.ask("srvr", 0.5)), None)

    # -- faults --

    def cut(self, member: Server) -> None:
        """No other member reaches it, and it reaches none; clients still do."""
        for link in self._links_of(member):
            link.cut()

    def heal(self, member: Server) -> None:
        for link in self._links_of(member):
            link.heal()

    def _links_of(self, member: Server) -> Iterator[Proxy]:
        number = self.members.index(member) + 1
        return (link for pair, link in self._links.items() if number in pair)

    def kill(self) -> None:
        """SIGKILL to every member."""
        for member in self.members:
            member.kill()

    def start(self, timeout_seconds: float = 60.0) -> None:
        """Start those that do not run, and return when all serve; raises RuntimeError where one does not in time."""
        for member in self.members:
            if not member.running:
                member.begin()
        for member in self.members:
            member.await_serving(timeout_seconds)

    def close(self) -> None:
        """Kill every member, and remove all that is left of it."""
        with ExitStack() as leaving:
            for link in self._links.values():
                leaving.callback(link.close)
            for member in self.members:
                leaving.callback(member.close)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

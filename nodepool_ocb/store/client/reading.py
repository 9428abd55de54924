"""Reading through a connection: hundreds of paths in a request, and several requests under way.

The data are as fresh as the connected server; after ``sync``, as fresh as the ensemble.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, TypeVar

from kazoo import exceptions as kazoo_errors

from nodepool_ocb.errors import Denied, OcbError, OutcomeUnknown, Stale, Unavailable
from nodepool_ocb.store.client import diagnosis, folders, frames, transaction
from nodepool_ocb.store.client.answers import Completion, NotSent, PendingAnswer
from nodepool_ocb.store.client.folders import Folders
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.tree import ImageTree
from nodepool_ocb.store.client.wire import Client

T = TypeVar("T")
B = TypeVar("B")

BATCH: Final = 400  # paths in one request; 200 to 500 are equally fast
SEARCHED: Final = 1000  # the same, where answers are searched alone: fewer turns of both threads
WINDOW: Final = 8  # requests under way at once


class SessionReads:
    """The reads of a session. Every method raises Unavailable or Denied.

    ``patience_seconds`` bounds the wait for one answer; kazoo gives up long before, unless it fails itself. ``tree`` is the
    layout of the images.
    """

    def __init__(self, client: Client, hosts: str, patience_seconds: float, tree: ImageTree) -> None:
        self._client = client
        self.tree = tree
        self._hosts = hosts
        self._patience = patience_seconds

    @property
    def chroot(self) -> str:
        """The prefix of every path in ZooKeeper; may be empty."""
        chroot: str = self._client.chroot
        return chroot

    @property
    def hosts(self) -> str:
        """The connection string as configured: "host:port,host:port/chroot"."""
        return self._hosts

    def get(self, path: str) -> Znode | None:
        """The znode at ``path``, None if it does not exist."""
        return self.get_many([path])[0]

    def get_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """The znodes at ``paths``, in their order, in requests of hundreds."""
        return list(self.stream(paths))

    def stream(self, paths: Iterable[str]) -> Iterator[Znode | None]:
        """As ``get_many``, one after the other while more are under way: nothing has to hold them all."""
        found = chain.from_iterable(self._pipeline(self._of_paths(frames.read_data, paths), frames.unpack_data))
        if not self.tree.foreign:
            return found
        return (None if znode is None else self.tree.read(znode) for znode in found)

    def stream_folders(self, wanted: Folders) -> Iterator[Znode | None]:
        """As ``stream``, for the paths of these folders."""
        return chain.from_iterable(self._pipeline(self._of_folders(wanted, BATCH), _data))

    def stream_bytes(self, wanted: Folders) -> Iterator[bytes | None]:
        """As ``stream_folders``, the data alone: for very many."""
        return chain.from_iterable(self._pipeline(self._of_folders(wanted, BATCH), _bytes))

    def mentioning(self, wanted: Folders, needles: Sequence[bytes]) -> list[Znode]:
        """The znodes of these folders with JSON that has one of these bytes, or an escape: for a few among very many."""
        unpack = partial(_mentioning, needles=needles)
        return list(chain.from_iterable(self._pipeline(self._of_folders(wanted, SEARCHED), unpack)))

    def naming(self, paths: Iterable[str], names: Iterable[str]) -> list[str]:
        """Those of ``paths`` with a child of one of these names: a few among very many. No path of images."""
        wanted = frozenset(names)
        unpack = partial(frames.unpack_naming, names=wanted, needles=[*map(frames.text, wanted)])
        return list(chain.from_iterable(self._pipeline(self._of_paths(frames.read_children, paths), unpack)))

    def send_read(
        self, paths: Sequence[str], then: Callable[[], object] | None = None
    ) -> Callable[[], list[Znode | None]]:
        """As ``get_many`` for at most BATCH paths, without waiting: the result waits for the answer, on any thread.

        A connection answers in order: if it stays up, the answer has all that was sent before, a transaction included.
        ``then`` is called when the answer is there, on the connection's thread: it only queues something.
        """
        request = frames.read_data([*map(self.tree.stored, paths)], self._client.chroot)
        if then is None:
            answer = self._send(request)
        else:
            answer = pending = PendingAnswer()

            def answered(value: object) -> None:
                pending.set(value)
                then()

            self._client.submit(request, Completion(answered))

        def get() -> list[Znode | None]:
            found = self._unpacked(frames.unpack_data, answer, paths)
            return [None if each is None else self.tree.read(each) for each in found] if self.tree.foreign else found

        return get

    def children(self, path: str) -> list[str] | None:
        """The names below ``path``, None where it does not exist."""
        return self.children_many([path])[0]

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The names below each of ``paths``, in requests of hundreds."""
        requests = self._of_paths(frames.read_children, paths)
        found = list(chain.from_iterable(self._pipeline(requests, frames.unpack_children)))
        if self.tree.foreign:
            found = [names and self._native(path, names) for path, names in zip(paths, found, strict=True)]
        return found

    def _native(self, path: str, names: list[str]) -> list[str]:
        """The native names of the children of a native path."""
        stored = self.tree.stored(path)
        return [self.tree.native(f"{stored}/{name}").rpartition("/")[2] for name in names]

    def sync(self) -> None:
        """Return when our server has seen every write that was acknowledged before this call, anywhere."""
        self._reply(self._send(frames.sync(self._client.chroot or "/")))

    def ask_many(self, asked: Iterable[tuple[str, frames.Raw]], right: str) -> Iterator[frames.Reply | Denied | Stale]:
        """The answer to each request, in order, hundreds under way; a request comes with the path that it is about.

        A refused request gives Denied, naming ``right``, or Stale. A request without an answer raises Unavailable.
        """
        rest, flying = iter(asked), deque[tuple[str, PendingAnswer]]()
        while True:
            flying.extend((path, self._send(request)) for path, request in islice(rest, BATCH - len(flying)))
            if not flying:
                return
            path, answer = flying.popleft()
            value = answer.get(self._patience)
            if isinstance(value, frames.Reply):
                yield value
                continue
            refused = self._translated(value, path, right)
            if not isinstance(refused, Denied | Stale):
                raise self._translated(value)
            yield refused

    def _of_paths(
        self, request: Callable[[Sequence[str], str], frames.Raw], paths: Iterable[str]
    ) -> Iterator[tuple[frames.Raw, Sequence[str]]]:
        rest = iter(paths)
        while batch := list(islice(rest, BATCH)):
            yield request([*map(self.tree.stored, batch)], self.chroot), batch

    def _of_folders(self, wanted: Folders, most: int) -> Iterator[tuple[frames.Raw, folders.Batch]]:
        for batch in folders.batches(wanted, most):
            yield folders.read_data(batch, self.chroot), batch

    def _pipeline(
        self, requests: Iterable[tuple[frames.Raw, B]], unpack: Callable[[frames.Reply, B], list[T]]
    ) -> Iterator[list[T]]:
        """The answers to requests, in order, with ``WINDOW`` under way. Beside each request is the part that it reads."""
        flying: deque[tuple[PendingAnswer, B]] = deque()
        for request, part in requests:
            flying.append((self._send(request), part))
            if len(flying) >= WINDOW:
                yield self._unpacked(unpack, *flying.popleft())
        while flying:
            yield self._unpacked(unpack, *flying.popleft())

    def _unpacked(self, unpack: Callable[[frames.Reply, B], list[T]], answer: PendingAnswer, part: B) -> list[T]:
        try:
            return unpack(self._reply(answer), part)
        except frames.UnreadablePath as refused:
            raise transaction.failure(refused.code, refused.path, "read") from refused

    def _send(self, request: frames.Raw) -> PendingAnswer:
        answer = PendingAnswer()
        self._client.submit(request, answer)
        return answer

    def _reply(self, answer: PendingAnswer) -> frames.Reply:
        value = answer.get(self._patience)
        if isinstance(value, frames.Reply):
            return value
        raise self._translated(value)

    def _translated(self, error: Exception, path: str = "", right: str = "read") -> OcbError:
        hosts = self._hosts
        if isinstance(error, NotSent | kazoo_errors.ConnectionClosedError):
            return Unavailable(f"no connection to ZooKeeper at {hosts}{self._because}; nothing was written; try again")
        if isinstance(error, kazoo_errors.SessionClosedRequireSaslError):
            return Denied(f"ZooKeeper at {hosts} refuses us ({diagnosis.WANTS_USER})")
        if isinstance(error, kazoo_errors.AuthFailedError):
            return Denied(f"ZooKeeper at {hosts} refuses us ({diagnosis.WRONG_USER})")
        if isinstance(error, TimeoutError | kazoo_errors.ConnectionLoss | kazoo_errors.SessionExpiredError):
            about = f" while {path} was written; see: nodepool-ocb record show {path}" if path else "; try again"
            return (OutcomeUnknown if path else Unavailable)(f"the connection to ZooKeeper at {hosts} broke{about}")
        return transaction.failure(getattr(error, "code", 0), path or hosts, right)

    @property
    def _because(self) -> str:
        reason: str = self._client._connection.failure
        return f" ({reason})" if reason else ""


def _data(reply: frames.Reply, batch: folders.Batch) -> list[Znode | None]:
    return frames.unpack_data(reply, folders.paths(batch))


def _bytes(reply: frames.Reply, batch: folders.Batch) -> list[bytes | None]:
    return frames.unpack_bytes(reply, folders.paths(batch))


def _mentioning(reply: frames.Reply, batch: folders.Batch, needles: Sequence[bytes]) -> list[Znode]:
    return frames.unpack_mentioning(reply, partial(folders.paths, batch), needles)

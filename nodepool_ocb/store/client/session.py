"""One session with ZooKeeper: batched reads, versioned transactions, persistent watches, and the settling of lost
answers.

A change of a record names the version that was read; gates and the znode of the clock are written at any version. A
request that is made without a connection is refused with Unavailable: it does not wait for a connection. A write with a
lost answer is settled by reading (``doubts``), never by writing again. Functions given to a session are called on the
connection's thread: they put something in a queue and return.

A lost session is replaced by a new one; readers and writers are not told. A holder of claims is told by ``on_lost``,
late, and has ``trusted`` to know it in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from nodepool_ocb.errors import Denied, Invalid, OcbError, OutcomeUnknown, Unavailable
from nodepool_ocb.model.records import Change, Create, Json, Record
from nodepool_ocb.store.client import access, clock, doubts, frames, heart, outcome, transaction
from nodepool_ocb.store.client.answers import Completion, PendingAnswer
from nodepool_ocb.store.client.doubts import Doubt as Doubt
from nodepool_ocb.store.client.doubts import Stats as Stats
from nodepool_ocb.store.client.frames import Znode as Znode
from nodepool_ocb.store.client.frames import ZnodeStat as ZnodeStat
from nodepool_ocb.store.client.outcome import SentTransaction, TransactionFate
from nodepool_ocb.store.client.reading import SessionReads
from nodepool_ocb.store.client.tree import NATIVE, ImageTree
from nodepool_ocb.store.client.wire import Client, Wake, Watcher

if TYPE_CHECKING:
    from nodepool_ocb.config import ZooKeeperSettings

T = TypeVar("T")

REFUSALS: Final = 2  # by every address, before it counts as refused
CLOSE_SECONDS: Final = 2.0  # for a server that answers; then the connection is broken off


class Session(SessionReads):
    """A connection that is kept up until ``close``.

    ``on_lost`` is called after the session and all its ephemeral znodes have ended. ``on_connected`` is called after
    each connection, the first one too. By then watches are armed again, and the changes of that time must be read.

    If it ``renews``, a session that all servers refuse is given up while its ephemeral znodes may still be there: for a user that
    holds no claims. So it survives a restore of ZooKeeper from an older copy.

    ``ambiguous`` counts transactions with a lost answer. ``unresolved`` counts those of them that have a signature and
    were not settled by reading. ``connections`` counts the connections. ``largest_bytes`` and ``largest_changes`` are
    those of the largest transactions that were sent.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        *,
        on_lost: Callable[[], None] | None = None,
        on_connected: Callable[[], None] | None = None,
        tree: ImageTree = NATIVE,
        renews: bool = False,
    ) -> None:
        access.refuse_plain_text(settings)
        self._on_lost = on_lost
        self._on_connected = on_connected
        self._up = threading.Event()
        self._closed = threading.Event()
        self._clock = clock.Clock()
        self._acls = access.Acls(settings, tree)
        self._clock_path = access.clock(settings)
        self._former: set[int] = set()  # ids of all sessions that this one had, that of now included
        self.ambiguous = 0
        self.unresolved = 0
        self.connections = 0
        self.largest_bytes = 0
        self.largest_changes = 0
        client = Client(
            connected_again=self._connected_again,
            connection_gone=self._up.clear,
            connection_retry=heart.rounds(),
            command_retry=KazooRetry(max_tries=1),
            **access.options(settings),
        )
        client._connection.renews = renews
        client.add_listener(self._listen)
        super().__init__(client, settings.hosts, settings.session_timeout_seconds * 2 + 5, tree)

    # -- life --

    def start(self, timeout_seconds: float = 10.0, refused_seconds: float | None = None) -> None:
        """Connect, and send one request to prove that this identity may read; raises Unavailable or Denied.

        After ``refused_seconds`` it also raises Unavailable if every address refuses the connection: no server listens
        there.
        """
        connection = self._client._connection
        self._client.start_async()
        began = time.monotonic()
        refused_seconds = timeout_seconds if refused_seconds is None else refused_seconds
        try:
            while not self._up.wait(0.05):
                waited = time.monotonic() - began
                refused = connection.refusals >= REFUSALS * connection.addresses
                if connection.rejected:
                    raise Denied(f"ZooKeeper at {self._hosts} refuses us{self._because}")
                if waited > timeout_seconds or (refused and waited > refused_seconds):
                    raise Unavailable(
                        f"ZooKeeper does not answer at {self._hosts}{self._because or '; check that its servers run'}"
                    )
            self.get("/")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session, and with it its ephemeral znodes; within seconds, even if the server is mute."""
        self._closed.set()
        stopper = threading.Thread(target=self._stop, name="zookeeper-close", daemon=True)
        stopper.start()
        stopper.join(CLOSE_SECONDS)
        if stopper.is_alive():
            self._client._connection.abort()
            stopper.join(CLOSE_SECONDS)

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except (kazoo_errors.KazooException, OSError, AttributeError):
            pass  # kazoo found its sockets gone, which is the aim

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def id(self) -> int:
        """The session's id, as in ``ephemeral_owner``; 0 if there is no session."""
        session: int = self._client._session_id or 0
        return session

    def had(self, session: int) -> bool:
        """Whether this is, or was, our session. Its remaining znodes are ours, also after ``on_lost``."""
        return session in self._former

    @property
    def timeout_seconds(self) -> float:
        """The silence after which the session is over: as the server answered, or as it was requested."""
        milliseconds: float = self._client._session_timeout
        return milliseconds / 1000

    @property
    def connected(self) -> bool:
        """A connection is up and authenticated, as far as this side knows."""
        return self._up.is_set()

    @property
    def trusted(self) -> bool:
        """Connected, and something was answered that was sent in the last 2/3 of the session's time-out.

        False means: our ephemeral znodes may be gone; start nothing, and touch nothing outside.
        """
        connection = self._client._connection
        return self._up.is_set() and self.silent_seconds < connection.lease_seconds

    @property
    def silent_seconds(self) -> float:
        """The age of the newest request that was answered."""
        silent: float = time.monotonic() - self._client._connection.proven
        return silent

    @property
    def dead(self) -> bool:
        """The connection's thread has ended without a call of ``close``: end the process."""
        stopped: bool = self._client._connection.connection_stopped.is_set()
        return stopped and not self._closed.is_set()

    @property
    def last_zxid(self) -> int:
        """The newest transaction that the server had seen when it last answered."""
        zxid: int = self._client.last_zxid
        return zxid

    # -- time --

    def now(self) -> float:
        """Seconds since the epoch by ZooKeeper's clock, which is the same for all hosts. Use it for every time that is
        stored in ZooKeeper, or compared with a stored one. It may step by as much as the clocks of two leaders differ.

        The first call writes the znode of the clock (``access.clock``) and waits; raises Unavailable. If there is no
        tree yet, or if this identity may not write, it is this host's clock until a later write gives ZooKeeper's time.
        """
        if self._clock.ahead is None:
            self._ask_time()
        ahead = self._clock.ahead
        return time.time() if ahead is None else time.monotonic() + ahead

    def _ask_time(self) -> None:
        write, make = self._clock_questions()
        for question in (write, make, write):  # the last where another made it meanwhile
            sent = time.monotonic()
            if self._clock.heed(self._reply(self._send(question.request)), question.members, sent):
                return

    def _clock_questions(self) -> tuple[clock.TimeQuery, clock.TimeQuery]:
        return clock.questions(self._client.chroot + self._clock_path, self._acls.packed(self._clock_path))

    # -- writing --

    def commit(self, changes: Sequence[Change]) -> Stats:
        """Write all of ``changes`` or nothing; gives the stat after each (None for Check and Delete).

        Raises Stale, with the path, if a znode has another version, is gone or exists. Raises Invalid, before sending,
        if the changes are too large. Raises Denied. Raises Unavailable if nothing was written; OutcomeUnknown if the answer
        was lost and reading could not settle it.
        """
        if not changes:
            return []
        packed, sending = self._pack(changes)
        sent = time.monotonic()
        result = self._result(sending, self._send(packed.request).get(self._patience), sent)
        if isinstance(result, Doubt):
            return self.resolve(result)
        if isinstance(result, OcbError):
            raise result
        return result

    def commit_soon(self, changes: Sequence[Change], done: Callable[[Stats | OcbError], None]) -> None:
        """As ``commit``, without waiting: ``done`` gets the stats or the exception, and only queues it.

        A Doubt is handed over as it is; ``resolve(doubt)``, on a thread that may wait, settles it.
        """
        try:
            packed, sending = self._pack(changes)
        except Invalid as wrong:
            done(wrong)
            return
        sent = time.monotonic()
        self._client.submit_now(packed.request, Completion(lambda value: done(self._result(sending, value, sent))))

    def _pack(self, changes: Sequence[Change]) -> tuple[transaction.Packed, SentTransaction]:
        packed = transaction.pack(changes, self._client.chroot, self._acls.packed, self.tree)
        self.largest_bytes = max(self.largest_bytes, packed.size)
        self.largest_changes = max(self.largest_changes, len(changes))
        return packed, SentTransaction(changes, packed.data, self.last_zxid)

    def resolve(self, doubt: Doubt) -> Stats:
        """Settle a transaction with a lost answer: wait for a connection, sync, read, compare.

        Gives the stats if it was applied. Raises Stale if another writer was first. Raises Unavailable if it never
        arrived: nothing was written, and it may be tried again. Raises OutcomeUnknown if no connection comes in time, or if
        the znodes prove nothing.
        """
        sending = doubt.sending
        path = sending.changes[0].path
        looked = self._looked(lambda: doubts.look(self, sending))
        if looked is None:
            self.unresolved += 1
            raise OutcomeUnknown(
                f"no connection came back to see whether {path} was written; see: nodepool-ocb record show {path}"
            )
        finding, stats = looked
        if finding.verdict is TransactionFate.APPLIED:
            return stats
        if finding.verdict is TransactionFate.REFUSED:
            raise transaction.failure(frames.CHANGED, finding.path, "write")
        if finding.verdict is TransactionFate.LOST:
            raise Unavailable(f"the connection broke before {path} was written; try again")
        if outcome.provable(sending.changes):
            self.unresolved += 1
        raise OutcomeUnknown(
            f"{path} may have been written before others wrote it; see: nodepool-ocb record show {path}"
        )

    def _looked(self, look: Callable[[], T]) -> T | None:
        """The result of a look with the next connection that lasts; None where none comes in time."""
        deadline = time.monotonic() + self._patience
        while self._await_connection(deadline):
            try:
                return look()
            except Unavailable:
                self._closed.wait(0.05)  # it broke again
        return None

    def ensure(self, *paths: str) -> None:
        """Create empty persistent znodes, with their parents and the chroot, where they are absent."""
        chroot: str = self._client.chroot
        wanted = dict.fromkeys(prefix for path in paths for prefix in _prefixes(chroot + self.tree.stored(path)))
        looks = [(path, self._send(frames.read_data([path], ""))) for path in wanted]
        absent = [path for path, answer in looks if not self._there(path, answer)]
        made = [(path, self._send(self._bare(path, chroot))) for path in absent]
        for path, answer in made:  # parents were sent before, and ZooKeeper keeps the order
            refused = frames.unpack_multi(self._reply(answer), [0])
            if isinstance(refused, frames.RefusedMember) and refused.code != frames.EXISTS:
                raise transaction.refusal([Create(path)], refused)

    def _bare(self, path: str, chroot: str) -> frames.Raw:
        acl = self._acls.packed(path.removeprefix(chroot) if path.startswith(chroot) else "/")
        return frames.multi([frames.create(path, b"", acl, False)])

    def _there(self, path: str, answer: PendingAnswer) -> bool:
        """Whether a znode exists; a znode that may not be read exists. The path includes the chroot."""
        reply = self._reply(answer)
        try:
            return frames.unpack_data(reply, [path])[0] is not None
        except frames.UnreadablePath as refused:
            if refused.code != transaction.NO_RIGHT:
                raise transaction.failure(refused.code, path, "read") from refused
            return True

    def create_next(self, prefix: str, data: Record | Json, ephemeral: bool = False) -> str:
        """Create ``prefix`` with ten digits behind it, a number that this parent never gave before; gives the path.

        Raises Stale if the parent is absent, Invalid if the data are too large, Denied, and Unavailable if nothing was
        written. Raises OutcomeUnknown if the answer was lost and no znode there has our record. Then such a znode may exist;
        its data, or its prefix, show that it is ours.
        """
        made = Create(prefix, data)
        before = self.last_zxid
        wrote = transaction.pack([made], "", self._acls.packed).data[0]
        stored, sent = self._client.chroot + self.tree.stored(prefix), self.tree.written(prefix, wrote)
        request = frames.create_next(stored, sent, self._acls.packed(prefix), ephemeral)
        value = self._send(request).get(self._patience)
        if isinstance(value, frames.Reply):
            return self.tree.native(frames.unpack_path(value).removeprefix(self._client.chroot))
        error = self._translated(value, prefix, "create")
        if not isinstance(error, OutcomeUnknown):
            raise error
        self.ambiguous += 1
        path = self._looked(lambda: doubts.numbered(self, prefix, wrote, before)) if outcome.signed(made) else None
        if path is None:
            raise error
        return path

    def _result(self, sending: SentTransaction, value: Any, sent: float) -> Stats | OcbError:
        changes = sending.changes
        if isinstance(value, frames.Reply):
            result = frames.unpack_multi(value, transaction.owners(changes, self.id))
            self._clock.heed_stats(result, sent)
            return transaction.refusal(changes, result) if isinstance(result, frames.RefusedMember) else result
        error = self._translated(value, changes[0].path)
        if not isinstance(error, OutcomeUnknown):
            return error
        self.ambiguous += 1
        return Doubt(str(error), sending)

    def _await_connection(self, deadline: float) -> bool:
        while not self._closed.is_set() and not self.dead and time.monotonic() < deadline:
            if self._up.wait(0.1):
                return True
        return False

    # -- watching --

    def watch(self, path: str, wake: Wake, over: Callable[[], None] | None = None, levels: int | None = None) -> None:
        """Call ``wake(kind, path)`` when a znode at ``path`` or below is created, deleted or changed. ``over`` is called
        behind all that came at once. ``levels``: of paths below this one that concern the caller; None: all.

        The watch is armed again after every reconnect. Changes in between are not reported: read them when
        ``on_connected`` is called.
        """
        root, native = self._client.chroot + self.tree.stored(path), self.tree.native
        translated: Wake = lambda kind, changed: wake(kind, native(changed))  # noqa: E731
        most = float("inf") if levels is None else root.count("/") + levels
        self._client.watch(root, Watcher(translated if self.tree.foreign else wake, most, over))
        self._reply(self._send(frames.add_watch(root)))

    def watch_all_levels(self, path: str) -> None:
        """From now on all paths below a watched one concern its watcher."""
        root = self._client.chroot + self.tree.stored(path)
        self._client.watch(root, self._client.watchers[root]._replace(most_slashes=float("inf")))

    # -- on the connection's thread --

    def _connected_again(self) -> None:
        for root in list(self._client.watchers):
            self._client.submit(frames.add_watch(root), PendingAnswer(), first=True)
        if self._clock.ahead is not None:  # this host may have slept, or the leader be another
            write, sent = self._clock_questions()[0], time.monotonic()
            heed = partial(self._clock.heed, members=write.members, sent=sent)
            self._client.submit(write.request, Completion(heed))
        self.connections += 1
        self._former.add(self.id)
        self._up.set()
        if self._on_connected is not None:
            self._on_connected()

    def _listen(self, state: str) -> None:
        if state == KazooState.LOST and not self._closed.is_set() and self._on_lost is not None:
            self._on_lost()


def _prefixes(path: str) -> Iterator[str]:
    names = [name for name in path.split("/") if name]
    return ("/" + "/".join(names[: count + 1]) for count in range(len(names)))

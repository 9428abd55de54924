"""The performer: reads the answers of an operation's lookups, writes its transactions with their journal entries.

If another writer was faster, it reads and decides again, after a pause that grows and is random. It is the one place where
operations reach ZooKeeper. ``store`` is imported when a session is opened, not before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import structure
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import OcbError, Stale, TimedOut, Unread
from nodepool_ocb.model.records import Change, Create
from nodepool_ocb.operations.journal import Journal
from nodepool_ocb.operations.operation import (
    Because,
    Call,
    Lookup,
    Near,
    Note,
    Operation,
    Performed,
    Procedure,
    Situation,
    Steps,
)
from nodepool_ocb.operations.planguard import PlanGuard, SilentCaller
from nodepool_ocb.operations.plans.saved import PlanBasis, PlanDemand, SavedPlan
from nodepool_ocb.views import noderoles
from nodepool_ocb.views.noderoles import NoderoleRow

if TYPE_CHECKING:
    from collections import Counter

    from nodepool_ocb.config import Settings
    from nodepool_ocb.model.journal import Entry
    from nodepool_ocb.model.records import State
    from nodepool_ocb.store.client.frames import Znode
    from nodepool_ocb.store.client.session import Session, Stats

CONNECT_SECONDS: Final = 7.0  # a command without ZooKeeper ends within ten, also on a busy machine
REFUSED_SECONDS: Final = 1.0  # a server that restarts may be back by then
ATTEMPTS: Final = (
    40  # each refused attempt means that another writer succeeded, so many callers make progress side by side
)
LONGEST_PAUSE_SECONDS: Final = 1.0

T = TypeVar("T")


class Caller(Protocol):
    """The interface that calls: the command line, or the API."""

    def note(self, text: str) -> None:
        """Show a sentence now."""

    def agree(self, text: str, details: Sequence[str]) -> bool:
        """Ask for agreement to an irreversible change ("delete node n1 ..."), unless the call carries it already.

        True if it was asked for; raises if it is refused.
        """


class AnyPerformer(Protocol):
    """A performer of the operations of one call: directly on ZooKeeper, or at a server of the API. Not thread-safe."""

    call: Call
    caller: Caller

    def perform(self, operation: Operation[T]) -> Performed[T]:
        """Perform it; raises the errors of the operation and of the way to its records."""


#: Raises an error of ``errors.py`` unless the records are as a call demands.
Condition: TypeAlias = Callable[["Reader"], None]


class Performer:
    """Performs the operations of one call directly on ZooKeeper; not thread-safe.

    After the ``deadline`` (monotonic) it begins no read and no write. The ``conditions`` are checked in each attempt before its
    first write of the call: after the reads of the decision. So an attempt that writes decided from records that met them.
    """

    def __init__(
        self,
        call: Call,
        caller: Caller,
        settings: Callable[[], Settings],
        deadline: float | None = None,
        conditions: Sequence[Condition] = (),
    ) -> None:
        self.call = call
        self.deadline = deadline
        self.conditions = conditions
        self.mark: Create | None = None  # of the call, written with its first transaction (``operations.repeats``)
        self.caller = caller
        self.settings = cache(settings)  # raises Invalid
        self.journal = Journal(call)
        self.committed: Stats = []  # of the changes of the transaction that was committed last
        self.changes: Sequence[
            Change
        ] = ()  # of the operation that was performed last; of a dry run, those that it would write
        self.operation: Operation[Any] | None = None  # that was performed last
        self.basis: PlanBasis | None = None  # of its dry run
        self.plain_secrets: list[str] = []  # places of secrets that came in plain text
        self.cluster = ""  # its id, once a session is open
        self._transactions = 0  # of the operation under way
        self._plans = PlanGuard(self.journal, self.in_time, limited=call.limited)
        self._tried = False  # the operation was compared with its plan as a whole

    # -- reading --

    @contextmanager
    def session(
        self,
        timeout_seconds: float = CONNECT_SECONDS,
        on_connected: Callable[[], None] | None = None,
        founding: bool = False,
    ) -> Iterator[Session]:
        """A session that is closed at the end; each of its commits carries its journal entry.

        Raises Unavailable, Denied, Invalid, or NoCluster unless it is ``founding``.
        """
        from nodepool_ocb.store import clusters, nodepool11
        from nodepool_ocb.store.journal import Journaled

        settings = self.settings()
        tree = nodepool11.tree(settings.layout)
        made = Journaled(
            settings.zookeeper, self._entry, noted=self.journal.written, on_connected=on_connected, tree=tree
        )
        made.start(timeout_seconds, refused_seconds=REFUSED_SECONDS)
        try:
            if not founding:
                self.cluster = clusters.current(made).id
            yield made
        finally:
            made.close()

    def _entry(self, opened: Session, changes: Sequence[Change], replaced: Sequence[Znode]) -> Entry | None:
        """Called before each commit, so it also refuses a commit of a lookup in a dry run."""
        assert not self.call.dry_run, f"a dry run of {self.journal.verb} writes"
        return self.journal.entry(opened, changes, replaced)

    def load(self, opened: Session) -> World:
        """The world, no older than this call; a note names each record that cannot be read."""
        from nodepool_ocb.store.world.load import load_world

        opened.sync()
        world = load_world(opened)
        self.journal.declare(world)
        for reason in world.unreadable.values():
            self.caller.note(f"warning: this record cannot be read: {reason}")
        return world

    def load_near(self, opened: Session, near: Near | None) -> World:
        """As ``load``, or a part that raises Unread for all else; all of it where the part cannot be read as a whole."""
        if near is None:
            return self.load(opened)
        from nodepool_ocb.store.world.near import near_world

        opened.sync()
        world = near_world(opened, near.nodes, near.families, ancestors=near.ancestors)
        if world is None:
            return self.load(opened)
        self.journal.declare(world)
        return world

    def load_states(self, opened: Session) -> tuple[World, Mapping[str, Counter[State]] | None]:
        """A world of nodes alone, with the number of their noderoles in each state; or ``load``, where a record is unreadable."""
        from nodepool_ocb.store.world.states import node_states

        opened.sync()
        found = node_states(opened)
        return (self.load(opened), None) if found is None else (found.world, found.counts)

    def rows_of(self, vertices: list[Vertex]) -> list[NoderoleRow]:
        """The rows of these noderoles, by name."""
        return [noderoles.row(vertex) for vertex in sorted(vertices, key=attrgetter("name"))]

    def read(self, steps: Steps[T], opened: Session | None = None) -> T:
        """The answer of steps that write nothing, in a session of their own, or in ``opened``."""
        if opened is None:
            with self.session() as own:
                return self.read(steps, own)
        return Reader(self, opened, {}).run(steps)

    # -- operations --

    def ask(self, operation: Operation[T], opened: Session) -> T:
        """The answer of an operation that writes nothing, within another call: the journal keeps the verb of that call."""
        return Reader(self, opened, {}, operation.reads).run(operation.decide(self._situation(opened, ())))

    def perform(self, operation: Operation[T], opened: Session | None = None) -> Performed[T]:
        """Perform it in a session of its own, or in ``opened``; raises Stale after ``ATTEMPTS``, and the errors of both."""
        if opened is None:
            with self.session(founding=operation.founding) as own:
                return self.perform(operation, own)
        self.journal.verb, self.journal.writes = operation.title(), operation.writes
        self._plans.mark = None
        if self.call.plan is not None:
            self._begin_plan(operation, opened, self.call.plan)
        return self._performed(operation, opened)

    def _performed(self, operation: Operation[T], opened: Session) -> Performed[T]:
        self._transactions = 0
        kept: dict[object, Any] = {}
        changes: list[Change] = []
        answers: list[T] = []
        for _ in range(operation.rounds):
            found: list[T] = []
            before = len(changes)

            def decide(found: list[T] = found) -> Iterator[Sequence[Change]]:
                found[:] = [(yield from self._transactions_of(operation, opened, kept, changes))]

            self._decided(opened, decide, self.call.dry_run, changes, before)
            answers += found
        self.operation, self.changes = operation, changes
        performed = Performed(answers=tuple(answers), rows=self.journal.rows(changes), dry_run=self.call.dry_run)
        if self.call.dry_run:
            self.basis = self._plans.basis(opened.now(), changes, performed)
            if self.call.plan is not None:
                self._plans.require(opened, self.call.plan, self.basis)
        return performed.completed()

    def _transactions_of(
        self, operation: Operation[T], opened: Session, kept: dict[object, Any], changes: Sequence[Change]
    ) -> Generator[Sequence[Change], None, T]:
        """Decided from the part of the tree that the operation is about, and again from more where it asks for more."""
        near = None if self.call.dry_run or self.call.plan is not None else operation.near
        while True:
            reader = Reader(self, opened, kept, operation.reads, near)
            reader.conditions = () if self._transactions else self.conditions  # own writes change versions
            try:
                return (yield from reader.transactions(operation.decide(self._situation(opened, changes))))
            except Unread as more:
                if near is None:
                    raise
                near = near.with_family(more.family)

    def _situation(self, opened: Session, changes: Sequence[Change]) -> Situation:
        return Situation(
            call=self.call,
            now=opened.now(),
            local_now=time.time(),
            settings=self.settings(),
            written=tuple(changes),
            transactions=self._transactions,
        )

    def in_time(self) -> None:
        """Raises TimedOut after the deadline."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimedOut("the deadline of this call has passed; nothing more is written; see: nodepool-ocb history")

    def permit(self, world: World, changes: Sequence[Change]) -> None:
        """Called before each transaction, also of a dry run. Raises Denied if the caller may not make these changes."""

    # -- plans --

    def _begin_plan(self, operation: Operation[Any], opened: Session, plan: PlanDemand) -> None:
        """Raises NoCluster, Invalid or Conflict for a plan that is not valid.

        An operation with parts that are decided one after the other is first tried without effect, and compared as a whole.
        """
        if isinstance(plan, SavedPlan):
            self._plans.begin(opened, plan, self.cluster)
        in_parts = operation.rounds > 1 or any(issubclass(each, Procedure) for each in operation.reads)
        self._tried = in_parts and not self.call.dry_run
        if self._tried:
            call, caller = self.call, self.caller
            self.call, self.caller = replace(call, dry_run=True), SilentCaller()
            try:
                self._performed(operation, opened)
            finally:
                self.call, self.caller = call, caller
        if not self.call.dry_run:
            self._plans.prepare(opened)

    # -- writing --

    def decided(
        self, opened: Session, decide: Callable[[], Iterable[Sequence[Change]]], dry_run: bool = False
    ) -> list[Change]:
        """Write the transactions of ``decide``, one after the other; gives all changes. Raises Stale after ``ATTEMPTS``."""
        changes: list[Change] = []
        self._decided(opened, decide, dry_run, changes, 0)
        return changes

    def _decided(
        self,
        opened: Session,
        decide: Callable[[], Iterable[Sequence[Change]]],
        dry_run: bool,
        changes: list[Change],
        before: int,
    ) -> None:
        try:
            self._write(opened, decide, dry_run, changes)
        except BaseException:
            if not dry_run:
                self._note_how_far(changes[before:])
            raise

    def _note_how_far(self, changes: Sequence[Change]) -> None:
        """Name the last written change of a call that ends before its end."""
        done = [row.name for row in self.journal.rows(changes)]
        if done:
            self.caller.note(
                f"{counted(len(done), 'change')} written, the last of {done[-1]}; the same command goes on with the rest"
            )

    def _write(
        self,
        opened: Session,
        decide: Callable[[], Iterable[Sequence[Change]]],
        dry_run: bool,
        changes: list[Change],
    ) -> None:
        """``changes`` grows by each transaction that is written."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if self.call.plan is not None:
                    self._plans.require_unused(opened, self.call.plan)
                self.journal.cause = None
                transactions = decide()
                if self.call.plan is not None and not dry_run:
                    begun = bool(self._transactions) or self._tried
                    transactions = self._plans.followed(opened, self.call.plan, transactions, begun=begun)
                for transaction in transactions:
                    self.in_time()
                    assert not structure.forgotten(transaction), (
                        "a record that is created or deleted raises the structure"
                    )
                    if dry_run:
                        self._plans.remember(opened, transaction)
                    else:
                        self.committed = self._commit(opened, transaction)
                    changes += transaction
                    self._transactions += 1
            except Stale as stale:
                if attempt == ATTEMPTS:
                    raise Stale(f"others keep changing the same things ({stale}); try again", stale.path) from stale
                time.sleep(_pause_seconds(attempt))
            else:
                break

    def _commit(self, opened: Session, transaction: Sequence[Change]) -> Stats:
        """The stats of the changes; the marks of the call and of its plan are created with the first ones."""
        marks = [mark for mark in (self.mark, self._plans.mark) if mark is not None]
        stats = opened.commit([*transaction, *marks])[: len(transaction)]
        self.mark = self._plans.mark = None
        return stats

    def write_marks(self, opened: Session) -> None:
        """Write the marks of the call by themselves, before a procedure. Raises Stale if one exists."""
        if self.mark is not None or self._plans.mark is not None:
            self._commit(opened, ())


def _pause_seconds(attempt: int) -> float:
    """A random pause after a refused attempt; the longest possible pause grows with each attempt."""
    import random  # here, since few calls need it

    return random.uniform(0, min(LONGEST_PAUSE_SECONDS, 0.01 * 2**attempt))


class Reader:
    """Answers the lookups of one attempt; ``world`` is the world that was read last."""

    def __init__(
        self,
        performer: Performer,
        opened: Session,
        kept: dict[object, Any],
        declared: Sequence[type[Lookup[Any]]] | None = None,
        near: Near | None = None,
    ) -> None:
        """``kept`` outlives the attempt; ``declared``: the lookups that may be asked, if that is known. ``near``: the part of the
        tree that is read in place of all.
        """
        self.performer = performer
        self.session = opened
        self.world = World()
        self.conditions: Sequence[Condition] = ()  # that are still to be checked before the first write
        self.near = near
        self._kept = kept
        self._declared = declared
        self._notes: list[str] = []  # of a part of the tree: an attempt with more of it would repeat them

    def transactions(self, steps: Steps[T]) -> Generator[Sequence[Change], None, T]:
        """The transactions of a decision; its lookups are answered and its notes are sent on the way."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Note):
                    self._note(step.text)
                elif isinstance(step, Because):
                    self.performer.journal.cause = step.text
                elif isinstance(step, Lookup):
                    try:
                        answer = self._answer(step)
                    except OcbError as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(answer)
                    continue
                else:
                    self._send_notes()
                    self._meet_conditions()
                    self.performer.permit(self.world, step)
                    yield step
                step = next(steps)
        except StopIteration as ended:
            value: T = ended.value
            self._send_notes()
            return value
        except OcbError:
            self._send_notes()
            raise

    def _note(self, text: str) -> None:
        self._notes.append(text)
        if self.near is None:
            self._send_notes()

    def _send_notes(self) -> None:
        notes, self._notes = self._notes, []
        for text in notes:
            self.performer.caller.note(text)

    def note_one_time(self, text: str) -> None:
        """A note that later attempts of the same call do not repeat."""
        if text not in self._kept:
            self._kept[text] = None
            self.performer.caller.note(text)

    def run(self, steps: Steps[T]) -> T:
        """The answer of steps that write nothing."""
        made = self.transactions(steps)
        try:
            next(made)
        except StopIteration as ended:
            value: T = ended.value
            return value
        raise AssertionError("a read yields no transaction")

    def _meet_conditions(self) -> None:
        conditions, self.conditions = self.conditions, ()
        for condition in conditions:
            condition(self)

    def _answer(self, lookup: Lookup[Any]) -> Any:
        self.performer.in_time()
        if isinstance(lookup, Procedure):
            self._meet_conditions()
            self.performer.write_marks(self.session)
        asked = type(lookup)
        assert self._declared is None or asked in self._declared, f"`reads` lacks {asked.__name__}"
        if not lookup.kept:
            return lookup.answer(self)
        if lookup.key not in self._kept:
            self._kept[lookup.key] = lookup.answer(self)
        return self._kept[lookup.key]

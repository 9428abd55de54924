"""An operation: the arguments of one verb, typed, and the pure decision that they lead to.

``decide`` is a generator. It yields three kinds of steps:

- a lookup: a read, which the performer carries out; a ``Procedure`` is a lookup that writes;
- a note: a sentence for the caller;
- a transaction: changes, which the performer commits, or only reports in a dry run.

Its return value is the answer of the operation: a document of ``views/``, or ``Explained`` for a verb that only writes.

``decide`` does no I/O and has no clock. If a commit is refused because another writer was faster, the performer calls
``decide`` again from the beginning. An operation is independent of the interface that received it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec

from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.errors import Conflict, Invalid, Stale
from nodepool_ocb.model.ranges import LATEST, is_name, is_node
from nodepool_ocb.model.records import Change
from nodepool_ocb.operations.plans.saved import PlanDemand
from nodepool_ocb.views.changes import ChangeRow

if TYPE_CHECKING:
    from nodepool_ocb.config import Settings
    from nodepool_ocb.operations.performer import Reader

T = TypeVar("T")


class Right(StrEnum):
    """The right that a caller needs; each includes those before it."""

    VIEWER = "viewer"  # reads
    OPERATOR = "operator"  # moves work: binds, commits, retries, pauses
    ADMIN = "admin"  # deletes records, changes secrets, rights and the cluster itself


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of one call, as the interface knows them; the journal records them.

    ``login`` is stated by the interface: the command line takes it from the environment, which proves nothing.
    """

    login: str
    host: str  # from which the call came
    verb: str = ""  # noun and verb of a command without an operation
    reason: str | None = None
    dry_run: bool = False
    save: bool = False  # the dry run is to be saved as a plan
    plan: PlanDemand | None = None  # that the call must carry out
    limited: bool = False  # the caller has limits: it must not hear of changes of other objects
    deployments: frozenset[str] | None = None  # the caller hears of changes within these alone; None: of all


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The values beside the records that one attempt of ``decide`` depends on."""

    call: Call
    now: float  # ZooKeeper's time, in seconds since the epoch
    local_now: float  # this host's time, for the ages that documents show
    settings: Settings
    written: tuple[
        Change, ...
    ] = ()  # by this call so far: of rounds and attempts before; in a dry run, of rounds before
    transactions: int = 0  # that these changes were written in
    within: Callable[[World], Collection[str]] | None = None  # the names inside the limits of the caller, if it has any

    def own(self, world: World, vertices: Iterable[Vertex]) -> list[Vertex]:
        """Those of ``vertices`` that are inside the limits of the caller."""
        if self.within is None:
            return list(vertices)
        names = self.within(world)
        return [vertex for vertex in vertices if vertex.name in names]

    @property
    def by(self) -> str:
        """The login that records name as the cause of a change."""
        return self.call.login

    def end(self, until: float | None, seconds: float | None) -> float | None:
        """The end of a pause: this time, or so many seconds from now by ZooKeeper's clock; None: until a person ends it.

        Raises Invalid for a number that is no time.
        """
        found = until if seconds is None else self.now + seconds
        if found is not None and not 0 <= found <= LATEST:
            raise Invalid(f"an end at {found:g} seconds since the epoch is no time; give a time in the future")
        return found


class Note(msgspec.Struct, frozen=True):
    """A sentence for the caller, sent when the step is taken."""

    text: str


class Because(msgspec.Struct, frozen=True):
    """The cause of the transactions that follow, for the journal; beside the reason that the caller gave."""

    text: str


class Lookup(msgspec.Struct, Generic[T], frozen=True):
    """A read that a decision needs: ``answer = yield from SomeLookup(...)``.

    ``records`` names the part of the tree, for the table of operations. A lookup that is ``kept`` is answered one time in a
    call: later attempts get the same answer.
    """

    records: ClassVar[str]
    kept: ClassVar[bool] = False

    def __iter__(self) -> Generator[Lookup[T], Any, T]:
        answer: T = yield self
        return answer

    @property
    def key(self) -> object:
        """Two lookups with equal keys share one answer if they are ``kept``."""
        return self

    def answer(self, reader: Reader) -> T:
        """Read it; raises the errors of the session."""
        raise NotImplementedError


class Procedure(Lookup[T], frozen=True):
    """A write of many transactions, in the order and with the retries that ``store`` knows; the answer is its result.

    Each of its commits carries an entry of this call's journal. An attempt that follows a conflict does not repeat it. A
    procedure that gave up is not tried again: its Stale becomes a Conflict. A dry run must not ask for one.
    """

    records = ""
    kept = True

    @property
    def key(self) -> object:
        return type(self)

    def answer(self, reader: Reader) -> T:
        assert not reader.performer.call.dry_run, f"a dry run asks for {type(self).__name__}"
        with final():
            return self.carry_out(reader)

    def carry_out(self, reader: Reader) -> T:
        """Write it; raises the errors of the session."""
        raise NotImplementedError


@contextmanager
def final() -> Iterator[None]:
    """Turns a Stale of a lookup that retries by itself into a Conflict, so that no call decides again."""
    try:
        yield
    except Stale as stale:
        raise Conflict(str(stale)) from stale


Step: TypeAlias = Lookup[Any] | Note | Because | Sequence[Change]
#: The steps of a decision, and its answer.
Steps: TypeAlias = Generator[Step, Any, T]


class Near(msgspec.Struct, frozen=True):
    """The part of the tree that a decision asks about: nodes, and noderoles of them whose children it asks for."""

    nodes: tuple[str, ...]
    families: tuple[str, ...] = ()  # ROLE@FQDN
    ancestors: bool = True  # of all noderoles; False: only the parents that a BLOCKED one waits for

    def with_family(self, name: str | None) -> Near | None:
        """The same with the children of this noderole. None stands for all: without a name, and if it has some already."""
        if name is None or self.families:
            return None
        return msgspec.structs.replace(self, families=(name,))


def near_noderoles(names: Iterable[str], selector: str | None = None) -> Near | None:
    """The part around these noderoles; None where all has to be read: for a selector, and for a name that is none.

    >>> near_noderoles(["ntp@n1"])
    Near(nodes=('n1',), families=(), ancestors=True)
    >>> near_noderoles(["n1"]), near_noderoles([], "state=ERROR")
    (None, None)
    """
    split = [name.partition("@") for name in names]
    if not all(is_name(role) for role, _, _ in split):
        return None
    return near_nodes((fqdn for *_, fqdn in split), selector)


def near_nodes(names: Iterable[str], selector: str | None = None, *, ancestors: bool = True) -> Near | None:
    """The part around these nodes; None as ``near_noderoles`` has it."""
    wanted = tuple(dict.fromkeys(names))
    if selector is not None or not wanted or not all(map(is_node, wanted)):
        return None
    return Near(wanted, ancestors=ancestors)


class Operation(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One verb of one noun; the fields are its arguments. A field never names a file: the caller reads files.

    The class is named noun and verb: ``NodeBind``. ``reads`` holds each lookup that ``decide`` may ask; ``writes`` holds
    the kinds of changes, as the journal names them. The performer asserts both.
    """

    noun: ClassVar[str]
    verb: ClassVar[str]  # empty for a noun without verbs, such as ``apply``
    right: ClassVar[Right]
    reads: ClassVar[tuple[type[Lookup[Any]], ...]]
    writes: ClassVar[tuple[str, ...]] = ()
    confidential: ClassVar[bool] = False  # its answer has a secret, which no record keeps
    founding: ClassVar[bool] = False  # it works without a cluster, and with a broken record of the cluster, too

    @classmethod
    def title(cls) -> str:
        """Noun and verb, as the journal records them.

        >>> class LampLight(Operation[None], frozen=True):
        ...     noun, verb = "lamp", "light"
        >>> LampLight.title()
        'lamp light'
        """
        return f"{cls.noun} {cls.verb}".strip()

    @property
    def near(self) -> Near | None:
        """The part of the tree that suffices for most answers; None: all of it. A decision that asks for more is made again."""
        return None

    @property
    def rounds(self) -> int:
        """The number of independent decisions: each is retried by itself, and its changes stay if a later one fails."""
        return 1

    def decide(self, situation: Situation) -> Steps[T]:
        """The steps, and the answer; raises the errors of ``errors.py``."""
        raise NotImplementedError

    def awaited(self, answer: T) -> AwaitedNoderoles:
        """The noderoles that ``--wait`` waits for."""
        raise NotImplementedError


class AwaitedNoderoles(msgspec.Struct, frozen=True, kw_only=True):
    """The noderoles of a wait: those of these names, on these nodes, and of this deployment."""

    noderoles: tuple[str, ...] = ()  # ROLE@FQDN
    nodes: tuple[str, ...] = ()
    resolved: bool = False  # a selector meant the nodes: one that is gone is left out
    deployment: str | None = None


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a verb that writes: the sentences beside the rows of its changes."""

    explanations: tuple[str, ...] = ()  # reasons of changes; the command line prints them in a dry run
    notes: tuple[str, ...] = ()  # explanations that people need after the change, too
    kept: tuple[ChangeRow, ...] = ()  # records that were named and stay as they are
    after: tuple[str, ...] = ()  # sentences to show after the changes

    @property
    def outside(self) -> tuple[ChangeRow, ...]:
        """The rows of changes that stand in no transaction."""
        return ()


class Performed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An operation that was performed: its answers, one for each round, and the rows of its changes."""

    answers: tuple[T, ...]
    rows: tuple[ChangeRow, ...]
    dry_run: bool

    @property
    def answer(self) -> T:
        """The answer of the last round."""
        return self.answers[-1]

    def completed(self) -> Performed[T]:
        """With the rows of changes that stand in no transaction."""
        outside = [row for each in self.answers if isinstance(each, Explained) for row in each.outside]
        return msgspec.structs.replace(self, rows=(*self.rows, *outside))

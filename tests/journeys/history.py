"""The history checker: what machines recorded, held against the promises (docs/promises.md) and ZooKeeper's record of runs.

Two witnesses on each machine, neither of which an annealer can write: the runner's ``history`` (orders taken, started,
attached, adopted, refused) and ``work``, which the role's script itself appends to when it begins and when it ends. The
script is what acts on a machine, so it is believed where the two differ. A machine that loses its state directory begins
a new memory: what its runner must know holds within each.
Each rule gives sentences that say what broke it; none means that the history is good.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import NodeRole, Run, State
from nodepool_ocb_annealer.runs.tidying import RUNS_KEPT


class Event(StrEnum):
    """What a machine noted."""

    STARTED = "started"  # a process group for a new run
    ENDED = "ended"  # it ended by itself, well or not
    KILLED = "killed"  # it was ended: a newer order came, its time was over, or somebody asked for it
    ATTACHED = "attached"  # an order found the run going on
    ADOPTED = "adopted"  # an order found the run finished
    FENCED = "fenced"  # an order of an old epoch was refused


_MARKS: Final = (Event.STARTED, Event.ENDED, Event.KILLED)


class Entry(NamedTuple):
    """One line of a machine's history; ATTACHED has the run that was found, and the epoch of whoever found it."""

    time: float  # seconds, of a clock that all machines share
    machine: str
    epoch: int
    noderole: str  # role@fqdn
    generation: int
    run: str
    event: Event
    exit_code: int | None = None  # of ENDED
    lost: int = 0  # how often the machine has lost its state directory since


class Work(NamedTuple):
    """One line of what a script itself wrote."""

    time: float
    machine: str
    noderole: str
    generation: int
    pid: int
    begins: bool
    beside: bool = False  # it began, and something of another still held the machine's lock


class Recorded(NamedTuple):
    """What ZooKeeper says about a noderole at the end."""

    record: NodeRole
    destructive: bool
    runs: Mapping[str, Run]  # as many as are kept


class Evidence(NamedTuple):
    """All there is to know after a test; the entries and the work of a machine stand in the order of its files."""

    entries: Sequence[Entry]
    work: Sequence[Work]
    noderoles: Mapping[str, Recorded]
    lives: Mapping[str, Sequence[float]] = {}  # noderole → when it was deleted, to be bound again
    mute: Collection[str] = ()  # machines whose runner could not write down all that it did
    doomed: Collection[str] = ()  # machines whose destructive runs may be lost, so that a person has to look

    def life(self, noderole: str, time: float) -> int:
        """Which of its lives a noderole was in then: ZooKeeper forgets the runs of all but the newest."""
        return bisect(self.lives.get(noderole, ()), time)

    def newest(self) -> Iterator[Entry]:
        """The entries of the lives that ZooKeeper knows of."""
        last = float("inf")
        return (e for e in self.entries if self.life(e.noderole, e.time) == self.life(e.noderole, last))

    def of_memories(self) -> Iterator[tuple[str, list[Entry]]]:
        """What each machine noted in each of its state directories."""
        memories: defaultdict[tuple[str, int], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            memories[entry.machine, entry.lost].append(entry)
        for (machine, _), entries in memories.items():
            yield machine, entries


def faults(evidence: Evidence) -> list[str]:
    """Every broken promise."""
    rules = (
        side_by_side,
        unordered,
        leftovers,
        falling_epochs,
        shared_epochs,
        started_twice,
        run_again,
        destroyed_twice,
        before_parents,
        unfinished,
        unaccounted,
        unknown_runs,
    )
    return [f"{rule.__name__}: {fault}" for rule in rules for fault in rule(evidence)]


# -- the machine alone --


def side_by_side(evidence: Evidence) -> Iterator[str]:
    """Never two jigs at once on a machine: neither by the runner's words nor by the scripts' own."""
    for machine, entries in evidence.of_memories():
        running: str | None = None
        for entry in entries:
            if entry.event is Event.STARTED:
                if running is not None:
                    yield f"{machine}: {_name(entry)} was started while {running} ran"
                running = _name(entry)
            elif entry.event in (Event.ENDED, Event.KILLED):
                running = None
    for work in evidence.work:
        if work.beside:
            yield f"{work.machine}: {work.noderole} began while something of another still lived"
    yield from _two_scripts(evidence)


def _two_scripts(evidence: Evidence) -> Iterator[str]:
    """A script that the runner killed cannot say that it ended: the next one's beginning is its end."""
    killed = Counter((e.noderole, e.generation) for e in evidence.entries if e.event is Event.KILLED)
    open_: dict[str, dict[int, Work]] = defaultdict(dict)
    for work in sorted(evidence.work, key=lambda work: work.time):
        going_on = open_[work.machine]
        if work.machine in {*evidence.mute, *evidence.doomed}:
            continue  # nobody may have written down what was killed; the lock tells
        if not work.begins:
            going_on.pop(work.pid, None)
            continue
        for other in list(going_on.values()):
            if killed[other.noderole, other.generation]:
                del going_on[other.pid]
            else:
                yield f"{work.machine}: {work.noderole} worked while {other.noderole} did"
        going_on[work.pid] = work


def unordered(evidence: Evidence) -> Iterator[str]:
    """No script begins but by an order that the runner noted."""
    ordered = Counter((e.noderole, e.generation) for e in evidence.entries if e.event is Event.STARTED)
    heard = [work for work in evidence.work if work.begins and work.machine not in evidence.mute]
    begun = Counter((work.noderole, work.generation) for work in heard)
    for (noderole, generation), count in (begun - ordered).items():
        yield f"{noderole} (generation {generation}) began {count} times more than it was started"


def leftovers(evidence: Evidence) -> Iterator[str]:
    """Nothing goes on when all is over."""
    for machine, entries in evidence.of_memories():
        marks = [entry for entry in entries if entry.event in _MARKS]
        if marks and marks[-1].event is Event.STARTED and not marks[-1].lost:
            yield f"{machine}: {_name(marks[-1])} still runs"


def falling_epochs(evidence: Evidence) -> Iterator[str]:
    """No order of an old epoch does anything."""
    for machine, entries in evidence.of_memories():
        accepted = [entry for entry in entries if entry.event in (Event.STARTED, Event.ATTACHED, Event.ADOPTED)]
        for before, entry in pairwise(accepted):
            if entry.epoch < before.epoch:
                yield f"{machine}: {_name(entry)} was {entry.event} after epoch {before.epoch}"


def shared_epochs(evidence: Evidence) -> Iterator[str]:
    """Every claim has an epoch of its own: two runs never share one."""
    owners: dict[tuple[str, int], str] = {}
    for entry in evidence.entries:
        if entry.event is Event.ATTACHED:  # names the run that it found
            continue
        owner = owners.setdefault((entry.machine, entry.epoch), entry.run)
        if owner != entry.run:
            yield f"{entry.machine}: runs {owner} and {entry.run} share epoch {entry.epoch}"


def started_twice(evidence: Evidence) -> Iterator[str]:
    """What is started again, for it was lost, is another run with a record of its own."""
    started = Counter((e.machine, e.run) for e in evidence.entries if e.event is Event.STARTED)
    for (machine, run), count in started.items():
        if count > 1:
            yield f"{machine}: run {run} was started {count} times"


# -- the noderole --


def run_again(evidence: Evidence) -> Iterator[str]:
    """What succeeded is not done again in the same generation, and an older generation is not started after a newer."""
    for _, entries in evidence.of_memories():
        yield from _run_again(entries)


def _run_again(entries: Iterable[Entry]) -> Iterator[str]:
    done: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    for entry in entries:
        if entry.event is Event.STARTED:
            if (entry.noderole, entry.generation) in done:
                yield f"{_name(entry)} was started again after it had succeeded"
            if entry.generation < newest.get(entry.noderole, 0):
                yield f"{_name(entry)} was started after generation {newest[entry.noderole]}"
            newest[entry.noderole] = entry.generation
        elif entry.event is Event.ENDED and entry.exit_code == 0:
            done.add((entry.noderole, entry.generation))


def destroyed_twice(evidence: Evidence) -> Iterator[str]:
    """A destructive role is started once, in whatever generation; again only where it ended by itself, and not well."""
    last: dict[str, Entry] = {}
    for entry in evidence.newest():
        recorded = evidence.noderoles.get(entry.noderole)
        if recorded is not None and recorded.destructive and entry.event in _MARKS:
            before = last.get(entry.noderole)
            if entry.event is Event.STARTED and before is not None and not before.exit_code:
                yield f"{_name(entry)} is destructive and was started again ({before.event} before)"
            last[entry.noderole] = entry


def before_parents(evidence: Evidence) -> Iterator[str]:
    """A child begins after every parent's newest run ended well."""
    marks: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.entries:
        if entry.event in _MARKS:
            marks[entry.noderole].append(entry)
    for entry in evidence.entries:
        recorded = evidence.noderoles.get(entry.noderole)
        for parent in _parents(evidence, recorded.record) if recorded and entry.event is Event.STARTED else ():
            newest = next((mark for mark in reversed(marks[parent]) if mark.time <= entry.time), None)
            same_life = newest and evidence.life(parent, newest.time) == evidence.life(parent, entry.time)
            if newest is None or not same_life or newest.exit_code != 0:
                yield f"{_name(entry)} was started before its parent {parent} had ended well"


def _parents(evidence: Evidence, record: NodeRole) -> Iterator[str]:
    """The noderoles that a record waits for, clusters opened."""
    for parent in record.parents:
        cluster = paths.split_cluster(parent)
        if cluster is None:
            yield parent
            continue
        for name, recorded in evidence.noderoles.items():
            if (recorded.record.deployment, True) == (cluster[1], cluster[0] in recorded.record.serves):
                yield name


def unfinished(evidence: Evidence) -> Iterator[str]:
    """Every noderole is ACTIVE at the end, or waits for a person to look at its machine."""
    for name, recorded in evidence.noderoles.items():
        waits = given_up(name, recorded.record, recorded.destructive, evidence.doomed)
        if recorded.record.state is not State.ACTIVE and not waits:
            yield f"{name} is {recorded.record.state}: {recorded.record.reason}"


def given_up(noderole: str, record: NodeRole, destructive: bool, doomed: Collection[str]) -> bool:
    """Whether it is destructive, and a person has to look at a machine on which runs may be lost."""
    return destructive and record.state is State.ERROR and paths.split_noderole(noderole)[1] in doomed


# -- ZooKeeper and the machines --


def unaccounted(evidence: Evidence) -> Iterator[str]:
    """Whatever order a machine was given, ZooKeeper has a record of its run, with the same epoch and generation.

    ZooKeeper keeps the newest runs: what came before the oldest of them is not asked for.
    """
    for entry in evidence.newest():
        recorded = evidence.noderoles.get(entry.noderole)
        run = recorded.runs.get(entry.run) if recorded else None
        if recorded is None:
            yield f"{_name(entry)}: ZooKeeper knows no such noderole"
        elif len(recorded.runs) >= RUNS_KEPT and entry.epoch < min(run.epoch for run in recorded.runs.values()):
            continue
        elif entry.event is Event.ATTACHED:
            if all(run.epoch != entry.epoch for run in recorded.runs.values()):
                yield f"{_name(entry)}: ZooKeeper has no record of the run that attached to it"
        elif run is None:
            yield f"{_name(entry)}: ZooKeeper has no record of it"
        elif (run.epoch, run.generation) != (entry.epoch, entry.generation):
            yield f"{_name(entry)}: ZooKeeper says epoch {run.epoch}, generation {run.generation}"


def unknown_runs(evidence: Evidence) -> Iterator[str]:
    """A run that succeeded had the machine's work for it, and each generation succeeds once."""
    ended = {(e.noderole, e.generation) for e in evidence.newest() if e.event is Event.ENDED and e.exit_code == 0}
    for name, recorded in evidence.noderoles.items():
        successes = Counter(run.generation for run in recorded.runs.values() if run.outcome == "succeeded")
        for generation, count in successes.items():
            if count > 1:
                yield f"{name}: generation {generation} succeeded {count} times"
            if (name, generation) not in ended and paths.split_noderole(name)[1] not in evidence.mute:
                yield f"{name}: generation {generation} succeeded, and its machine knows nothing of it"


# -- rollouts --


def in_order(entries: Iterable[Entry], groups: Iterable[Collection[str]]) -> bool:
    """Whether each group's first start comes after all that was done on the machines of the group before it.

    An order that comes late and does nothing, refused or given an old result, does not count.
    """
    marks = [entry for entry in entries if entry.event in _MARKS]
    times = [[entry.time for entry in marks if entry.machine in members] for members in groups]
    return all(max(before) <= min(after) for before, after in pairwise(times))


# -- figures --


def starts(entries: Iterable[Entry]) -> Counter[str]:
    """How often each noderole was started."""
    return Counter(entry.noderole for entry in entries if entry.event is Event.STARTED)


def _name(entry: Entry) -> str:
    return f"{entry.noderole} (generation {entry.generation}, run {entry.run}, epoch {entry.epoch})"

"""Runs of tasks in a storm: the list, the people that begin and stop its runs, and the check of each run.

A ``Note`` is taken at the end of a run and holds the generation of each noderole: the next run binds the same noderoles.
The history of the machines says which generations were done.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import yaml

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.driven.pointers import KEPT
from nodepool_ocb.store.tasks import runs
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.tasks.runs.records import LoadedTaskRun, TaskRunState
from nodepool_ocb.testing.storm import Mend
from nodepool_ocb.testing.troubles import Trouble
from nodepool_ocb_annealer.runs.tidying import RUNS_KEPT
from tests.journeys.evidence import WITNESS
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.hardships import CODES, odd_codes
from tests.journeys.history import Entry
from tests.journeys.history import Event as Noted
from tests.journeys.person import Person
from tests.journeys.troubles import Commands

RUN: Final = ("tasks", "run", "--deployment", DEPLOYMENT, "--facts-file", "none")
STOP: Final = ("tasks", "stop", DEPLOYMENT)
CRASHED: Final = 1  # the exit code of a command with a fault of its own
START_SECONDS: Final = 120.0  # until the session of the notes is there; the host may be busy
DESCRIPTORS: Final = 200  # that a daemon may have open when all is calm

#: A file ``odd`` in a machine's home is an exit code, which one task there ends with.
SCRIPT: Final = (
    WITNESS + '[ ! -e "$home/odd" ] || { read -r odd <"$home/odd"; rm "$home/odd"; exit "$odd"; }\nsleep SECONDS\n'
)
TASKS: Final[Sequence[Json]] = (
    {"id": "deploy", "type": "stage"},
    {
        "id": "web",
        "type": "group",
        "role": ["web"],
        "required_for": ["deploy"],
        "parameters": {"strategy": {"type": "parallel", "amount": 2}},
    },
    {"id": "db", "type": "group", "role": ["db"], "requires": ["web"], "required_for": ["deploy"]},
)
SHELLS: Final[Sequence[Json]] = (
    {"id": "network", "groups": ["web", "db"], "required_for": ["deploy"]},
    {"id": "site", "groups": ["web", "db"], "requires": ["network"], "required_for": ["deploy"]},
    {"id": "report", "role": "*", "requires": ["deploy"]},
)


def task_list(seconds: float) -> str:
    """The list, of which each task takes so long."""
    given = {"cmd": SCRIPT.replace("SECONDS", f"{seconds:g}"), "retries": 0, "timeout": 60}
    return yaml.safe_dump([*TASKS, *({**shell, "type": "shell", "parameters": given} for shell in SHELLS)])


def prepare(fleet: Fleet, seconds: float) -> None:
    """The machines have roles, of which a third is ``db``, and the deployment has the list."""
    for number, fqdn in enumerate(fleet.nodes):
        fleet.set_node(fqdn, tags=("db" if number % 3 == 2 else "web",), labels={"uid": str(number + 1)})
    file = fleet.folder / "tasks.yaml"
    file.write_text(task_list(seconds))
    with Person(fleet.hosts) as person:
        assert person.does("tasks", "upload", str(file), "--deployment", DEPLOYMENT) == 0, person.said


class People(Commands):
    """One person begins, retries and stops runs; a second one does the same in the same deployment."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        super().__init__(fleet, seed, fleet.nodes)
        self.codes: Counter[str] = Counter()

    def __str__(self) -> str:
        return f"People {dict(self.codes)}"

    def round(self) -> None:
        self.pause(0.3, 3.0)
        (asked,) = self.chance.choices(["run", "retry", "stop", "stop now"], [5, 5, 1, 1])
        words = {"run": RUN, "retry": (*RUN, "--retry"), "stop": STOP, "stop now": (*STOP, "--now")}[asked]
        code = self._person.does(*words)
        assert code != CRASHED, self._person.said
        self.codes[f"{asked}: {code}"] += 1


class OddCodes(Trouble):
    """A task ends with an odd exit code, or the runner of its machine tells one."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        super().__init__(seed)
        self._fleet = fleet

    def round(self) -> None:
        self.pause(0.5, 5.0)
        machine = self.chance.randrange(len(self._fleet.nodes))
        code = self.chance.choice(CODES)
        if self.chance.random() < 0.5:
            mend = odd_codes(code)(self._fleet, machine)
        else:
            mend = odd(self._fleet, machine, "255" if len(code) > 3 else code.lstrip("-"))
        try:
            self.pause(0.2, 2.0)
        finally:
            mend()


def odd(fleet: Fleet, machine: int, code: str) -> Mend:
    """The next task on this machine ends so, unless this is taken back before."""
    mark = fleet.farm.state_dir(fleet.nodes[machine]).parent / "odd"
    mark.write_text(f"{code}\n")
    return lambda: mark.unlink(missing_ok=True)


class Note(NamedTuple):
    """A run that is over."""

    running: LoadedTaskRun
    generations: Mapping[str, int]  # noderole on a machine → that in which this run committed it


class Notes(Trouble):
    """Takes a note of each run when it is over, unless the next one is faster."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        super().__init__(seed)
        self._session = Session(fleet.settings(30.0))
        self._nodes = fleet.nodes
        self.notes: dict[str, Note] = {}

    def __str__(self) -> str:
        states = Counter(str(note.running.head.state) for note in self.notes.values())
        return f"notes of runs {dict(states)}"

    def __enter__(self) -> Self:
        """The session begins before the thread, and not during a fault."""
        self._session.start(START_SECONDS)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._session.close()

    def round(self) -> None:
        self.pause(0.1, 0.1)
        before, version = runs.pointer(self._session, DEPLOYMENT)
        if before.newest is None or not before.over or before.newest in self.notes:
            return
        found = runs.read(self._session, DEPLOYMENT, before.newest)
        world = load_world(self._session)
        if found is not None and runs.pointer(self._session, DEPLOYMENT)[1] == version:
            own = {
                vertex.name: vertex.record.generation
                for vertex in world.vertices()
                if vertex.record.task_run == before.newest and vertex.node.name in self._nodes
            }
            self.notes[before.newest] = Note(found[0], own)


def faults(notes: Iterable[Note], entries: Sequence[Entry]) -> list[str]:
    """Contradictions between these runs and the history of the machines."""
    done: defaultdict[tuple[str, int], list[Entry]] = defaultdict(list)
    begun: dict[tuple[str, int], Entry] = {}
    for entry in entries:
        key = entry.noderole, entry.generation
        if entry.event is Noted.ENDED and entry.exit_code == 0:
            done[key].append(entry)
        elif entry.event is Noted.STARTED:
            begun.setdefault(key, entry)
    found = []
    for note in notes:
        successful = note.running.head.state is TaskRunState.SUCCESSFUL
        for noderole, generation in note.generations.items():
            count = len(done[noderole, generation])
            if count > 1 or (successful and not count):
                found.append(f"{note.running.name}: {noderole} was done {count} times")
        for above, below in machine_edges(note.running):
            if above not in note.generations or below not in note.generations:
                continue
            start = begun.get((below, note.generations[below]))
            ends = done[above, note.generations[above]]
            if start is not None and not any(end.time <= start.time for end in ends):
                found.append(f"{note.running.name}: {below} began before {above} was done")
    return found


def machine_edges(running: LoadedTaskRun) -> Iterator[tuple[str, str]]:
    """Each noderole on a machine, with the nearest ones on machines that it waits for, also over stages."""
    plan = running.plan

    def above(at: int) -> Iterator[int]:
        for parent in plan.parents[at]:
            if plan.nodes[plan.node_of[parent]]:
                yield parent
            else:
                yield from above(parent)

    for at in range(len(plan)):
        if plan.nodes[plan.node_of[at]]:
            for parent in set(above(at)):
                yield running.noderole(parent), running.noderole(at)


def leaks(fleet: Fleet) -> list[str]:
    """Remains of runs that are over: claims, locks, znodes, descriptors."""
    session = fleet.session
    session.sync()
    found = [f"a claim on {fqdn}" for fqdn in load_world(session).nodes if session.get(paths.claim(fqdn)) is not None]
    ids = sorted(session.children(paths.task_runs(DEPLOYMENT)) or ())
    znodes = session.get_many([paths.task_run(DEPLOYMENT, each) for each in ids])
    found += [f"an empty run {each}" for each, znode in zip(ids, znodes, strict=True) if znode and not znode.data]
    found += [f"{len(ids)} runs are kept"] if len(ids) > KEPT else []
    for each in ids:
        if locks := session.children(paths.task_run_lock(DEPLOYMENT, each)):
            found.append(f"a lock of run {each}: {locks}")
    for vertex in load_world(session).vertices():
        kept = session.children(paths.runs(vertex.role, vertex.node.name)) or ()
        found += [f"{vertex.name} keeps {len(kept)} runs"] if len(kept) > RUNS_KEPT + 1 else []
    for annealer in fleet.annealers:
        opened = len(list(Path(f"/proc/{annealer.pid}/fd").iterdir()))
        found += [f"{annealer.config.parent.name} has {opened} descriptors"] if opened > DESCRIPTORS else []
    return found


def over(fleet: Fleet) -> bool:
    """Whether no run is under way or being prepared by a living process."""
    with suppress(Unavailable):
        known, _ = runs.pointer(fleet.session, DEPLOYMENT)
        return known.over and runs.preparer(fleet.session, DEPLOYMENT, known) is None
    return False


def ends(person: Person, seconds: float, *more: str) -> int:
    """The exit code of ``tasks run --wait``."""
    began = time.monotonic()
    code = person.does(*RUN, *more, "--wait", "--timeout", f"{seconds:g}")
    print(f"tasks run {' '.join(more)}: exit code {code} after {time.monotonic() - began:.1f} s")
    return code

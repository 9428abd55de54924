"""What may happen to machines in a storm, and what may run on them; another hardship, or another wild script, is another line.

A machine that has it hard loses runs: each is an attempt with a record of its own, and the next one comes. Whether a
destructive run was done nobody knows then, and a person has to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from nodepool_ocb.testing.disks import SmallDisk
from nodepool_ocb.testing.impostors import IMPOSTORS, Impostor, Says
from nodepool_ocb.testing.storm import Mend
from tests.journeys.fleet import Fleet
from tests.journeys.troubles import Commands

Hardship: TypeAlias = Callable[[Fleet, int], Mend]  # done to the machine of this number

WILD_SECONDS: Final = 6.0  # a wild script has so long
#: What a script does every second time on its machine; in between it does nothing of the kind.
WILD: Final[Mapping[str, str]] = {
    "fails": "exit 1",
    "ends-as-if-out-of-time": "exit 124",
    "ends-by-a-signal": "kill -9 $$",
    "floods-output": "yes 'and so on, and so on, and so on, and so on' | head -c 3000000; exit 1",
    "floods-attributes": "head -c 3000000 /dev/zero | tr '\\0' x | write_attribute deep/words",
    "writes-nonsense": 'head -c 100000 /dev/urandom >>"$OCB_RUN.written"',
    "never-ends": "trap '' TERM; while :; do sleep 1; done",
    "kills-its-keeper": 'read -r _ _ _ _ _ keeper _ <"${OCB_RUN%/runs/*}/current"; kill -9 "$keeper"; sleep 60',
}


#: Exit codes that a machine may answer; the last three are none.
CODES: Final = ("255", "124", "-1", "256", "99999999999")
#: A runner that takes an order and does nothing.
LIE: Final = (
    r'printf "\n%s READY\n" "$OCB_TOKEN"; read -r order; '
    r'printf "\n%s DONE started finished CODE r -\n" "$OCB_TOKEN"; cat'
)


def wild(fleet: Fleet, nodes: Sequence[str]) -> None:
    """On each node each wild script; they are tried again until they do well."""
    for name, does in WILD.items():
        turns = f'mark=$home/{name}; if [ -e "$mark" ]; then rm "$mark"; else : >"$mark"; {does}; fi'
        role = fleet.work(0.5, turns, timeout_seconds=WILD_SECONDS, retries=1000, backoff_seconds=0.2)
        fleet.add_role(name, role)
        for fqdn in nodes:
            fleet.bind(name, fqdn)


def destructive(fleet: Fleet, nodes: Sequence[str]) -> None:
    """On each node a role that must not be done twice."""
    fleet.add_role("wipe", fleet.work(2.0, flags=("destructive",)))
    for fqdn in nodes:
        fleet.bind("wipe", fqdn)
    fleet.doomed |= set(nodes)


# -- what may happen to a machine --


def keeper_killed(fleet: Fleet, machine: int) -> Mend:
    """What watches over its run is killed."""
    fleet.farm.kill_keeper(machine)
    return _nothing


def state_lost(fleet: Fleet, machine: int) -> Mend:
    """Its runner's state directory is removed."""
    fleet.farm.lose_state(machine)
    return _nothing


def impostor(says: Says) -> Hardship:
    """Something that is no sshd takes its place; its runs go on."""

    def place_taken(fleet: Fleet, machine: int) -> Mend:
        fleet.farm.unplug(machine)
        taker = Impostor(fleet.farm.address(machine), says)

        def plugged_in() -> None:
            taker.close()
            fleet.farm.start(machine)

        return plugged_in

    place_taken.__name__ = f"impostor_{says.__name__}"
    return place_taken


def another_machine(fleet: Fleet, machine: int) -> Mend:
    """A machine with another host key takes its place; its runs go on."""
    fleet.farm.unplug(machine)
    fleet.farm.start_another(machine)

    def plugged_in() -> None:
        fleet.farm.unplug(machine)
        fleet.farm.start(machine)

    return plugged_in


def power_failed(fleet: Fleet, machine: int) -> Mend:
    """Every process of it is killed."""
    fleet.farm.kill(machine)
    return partial(fleet.farm.start, machine)


def frozen(fleet: Fleet, machine: int) -> Mend:
    """Every process of it stops."""
    fleet.farm.freeze(machine)
    return partial(fleet.farm.thaw, machine)


def disk_full(disks: Mapping[int, SmallDisk]) -> Hardship:
    """There is no room for its runner's files; ``disks`` are by the number of their machines."""

    def state_full(_: Fleet, machine: int) -> Mend:
        disks[machine].fill()
        return disks[machine].free

    return state_full


def disk_read_only(disks: Mapping[int, SmallDisk]) -> Hardship:
    """Its runner's files cannot be written."""

    def state_read_only(_: Fleet, machine: int) -> Mend:
        disks[machine].read_only()
        return disks[machine].writable

    return state_read_only


def odd_codes(code: str) -> Hardship:
    """Its runner answers each order with the end of a run that it did not begin, and with this exit code."""

    def runner_lies(fleet: Fleet, machine: int) -> Mend:
        fqdn = fleet.farm.records()[machine][0]
        found = {file: file.read_bytes() for file in fleet.farm.state_dir(fqdn).glob("runner-*/runner")}
        for file in found:
            _replace(file, LIE.replace("CODE", code).encode())

        def repaired() -> None:
            for file, text in found.items():
                _replace(file, text)

        return repaired

    runner_lies.__name__ = f"runner_says_{code}"
    return runner_lies


def _replace(file: Path, text: bytes) -> None:
    """At once: a shell that reads the former file goes on with it."""
    if file.parent.is_dir():
        new = file.with_name("another")
        new.write_bytes(text)
        new.replace(file)


def _nothing() -> None:
    """There is nothing to be mended."""


#: By kind, each as likely as the others.
HARDSHIPS: Final[Sequence[Sequence[Hardship]]] = (
    (keeper_killed,),
    (state_lost,),
    (another_machine, *map(impostor, IMPOSTORS.values())),
    (power_failed,),
    (frozen,),
    tuple(map(odd_codes, CODES)),
)


class Hardships(Commands):
    """A machine has a hardship, seconds later that is over, and something more runs there."""

    def __init__(self, fleet: Fleet, seed: int, nodes: Sequence[str], hardships: Sequence[Sequence[Hardship]]) -> None:
        super().__init__(fleet, seed, nodes)
        self._hardships = hardships
        self.had: Counter[str] = Counter()

    def __str__(self) -> str:
        return f"Hardships {dict(self.had)}"

    def round(self) -> None:
        self.pause(0.1, 2.0)
        fqdn = self.chance.choice(self.nodes)
        hardship = self.chance.choice(self.chance.choice(self._hardships))
        self.had[hardship.__name__] += 1
        mend = hardship(self.fleet, self.fleet.farm.number(fqdn))
        try:
            self.pause(0.2, 4.0)
        finally:
            mend()
        self.try_once("noderole", "refresh", f"{self.chance.choice([*WILD])}@{fqdn}")

"""Whether an installation is under way on a machine: its record counts for one generation of one noderole, in TRANSITION.

Meanwhile the machine may be away. So no annealer probes it, its absence changes no noderole, and an annealer that takes the
noderole over continues at the step in the record. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from nodepool_ocb.engine.world import NodeView, Stored, Vertex, World
from nodepool_ocb.model.installation import ENDS, BootToken, Installation, InstallPurpose, InstallStep, MachineUse
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import State, WipeMethod
from nodepool_ocb.model.tokens import Token, TokenRole

#: The jigs of roles that install, decommission and rescue their machines: these boot one of our environments for it.
JIG: Final = "install"
#: The power driver of a machine that a person switches.
BY_HAND: Final = "manual"
DECOMMISSION: Final = "decommission"
RESCUE: Final = "rescue"
ERASE_TASK: Final = "task-erase"  # as decommission, of a task list
PROVISION_TASK: Final = "task-provision"  # as JIG, of a task list
RETIRING: Final = frozenset({DECOMMISSION, ERASE_TASK})
ERASING: Final = frozenset({JIG, PROVISION_TASK, *RETIRING})
#: The steps at which the machine leaves its system, and the installer may show the token of its boot.
AWAITS_INSTALLER: Final = frozenset({InstallStep.PUBLISHED_INSTALL, InstallStep.REBOOTING})
#: The purposes after which the machine has the system that it had.
KEEPING: Final = frozenset({InstallPurpose.RETIRE, InstallPurpose.RESCUE})


def stored(view: NodeView) -> Stored[Installation] | None:
    """The newest installation of the machine, under way or over."""
    return view.world.of(Installation).get(view.name)


def boot_token(view: NodeView) -> Stored[BootToken] | None:
    """The token for the boot script of the machine, until it is used."""
    return view.world.of(BootToken).get(view.name)


def of_vertex(vertex: Vertex) -> Stored[Installation] | None:
    """The installation that is the run of this noderole; None if it has none, or if that is over."""
    found = _of_generation(vertex)
    if found is None or vertex.record.state is not State.TRANSITION:
        return None
    over = found.record.reason is not None or found.record.step in ENDS
    return None if over else found


def _of_generation(vertex: Vertex) -> Stored[Installation] | None:
    """The installation of this generation of a noderole, under way or over; None if it has none."""
    found = stored(vertex.node)
    if found is None or found.record.noderole != vertex.name or found.record.generation != vertex.record.generation:
        return None
    return found


def under_way(view: NodeView) -> Stored[Installation] | None:
    """The installation of the machine that is under way; None if none is."""
    found = stored(view)
    vertex = view.world.vertex(found.record.noderole) if found is not None else None
    return of_vertex(vertex) if vertex is not None and vertex.node is view else None


def failure(vertex: Vertex) -> str | None:
    """The reason for which the installation of this generation failed; None if it did not fail, or if there is none."""
    found = _of_generation(vertex)
    return found.record.reason if found is not None else None


def failed(vertex: Vertex) -> bool:
    """Whether it is in ERROR by its installation: a death of the machine does not start that again."""
    return vertex.record.state is State.ERROR and failure(vertex) is not None


def jig_of(vertex: Vertex) -> str | None:
    """The jig of its role; None without a role."""
    stored_role = vertex.node.world.roles.get(vertex.role)
    return stored_role.record.jig if stored_role is not None else None


def installs(vertex: Vertex) -> bool:
    """Whether its role installs the machine; a task of a list does so for its run alone, and does not count."""
    return jig_of(vertex) == JIG


def erases(vertex: Vertex) -> bool:
    """Whether a run of it erases disks of the machine, by the role and the wish of the node."""
    node = vertex.node.record
    kept = node is not None and node.install is not None and node.install.wipe is WipeMethod.NONE
    jig = jig_of(vertex)
    return jig in ERASING and not (jig == DECOMMISSION and kept)


def needs_no_system(vertex: Vertex) -> bool:
    """Whether it may run on a machine that is not alive.

    An installation that goes on may. So may one after an attempt that failed when the machine was to leave its system, and after
    a decommissioning: the former system may be gone. That of a machine with an empty disk lies in memory, and ends with its boot.
    A dead machine may be decommissioned and rescued. So may one for a pool, if the power of the machine can be switched: its last
    user's system was switched off.
    """
    if jig_of(vertex) in (*RETIRING, RESCUE):
        return True
    world, found = vertex.node.world, stored(vertex.node)
    if jig_of(vertex) not in (JIG, PROVISION_TASK):
        return False
    if use(vertex.node) is not None and switchable(world, vertex.node.name):
        return True
    if found is None:
        return False
    record = found.record
    left = record.token_used is not None or record.step in AWAITS_INSTALLER
    return of_vertex(vertex) is not None or record.step is InstallStep.RETIRED or (record.reason is not None and left)


def switchable(world: World, fqdn: str) -> bool:
    """Whether the machine can be switched on without a person."""
    power = world.of(MachinePower).get(fqdn)
    return power is not None and power.record.driver != BY_HAND


def macs(view: NodeView) -> tuple[str, ...]:
    """The MACs of the cards from which the machine may boot, in small letters."""
    return view.record.macs if view.record is not None else ()


def caller(installation: Installation) -> str:
    """The name of the holder of the token of its boot."""
    return f"boot:{installation.token}"


def boot_credential(world: World, id: str) -> Token | None:
    """The token of a boot with this id, as the servers of the API judge it; None if no installation waits for it.

    It is judged after its use, too: a second use is answered by a failure.
    """
    for fqdn, found in world.of(Installation).items():
        record, view = found.record, world.nodes.get(fqdn)
        if record.token == id and view is not None and under_way(view) is not None:
            name, limits = caller(record), f"name:{fqdn}"
            return Token(name=name, role=TokenRole.BOOT, digest=record.token_digest, selector=limits)
    return None


def observations(installation: Installation) -> list[str]:
    """The observations of the machine in the present step, each with the part that made it."""
    console = f"the console shows that {installation.console}" if installation.console else None
    return [each for each in (installation.requests, console) if each]


_DOES: Final[Mapping[InstallPurpose, str]] = {
    InstallPurpose.INSTALL: "it installs the machine",
    InstallPurpose.WIPE: "it erases the disks of the machine",
    InstallPurpose.RETIRE: "it takes the machine out of service",
    InstallPurpose.RESCUE: "it rescues the machine",
}


def sentence(installation: Installation, now: float) -> str:
    """The step, the obstacle and the time that is left.

    >>> made = Installation(noderole="os@n1.example.com", generation=1, run="r", epoch=1, since=0.0, started=0.0,
    ...     deadline=600.0, nonce="0" * 32, token_digest="0" * 64, step=InstallStep.REBOOTING, waits="it boots")
    >>> sentence(made, 10.0)
    'it installs the machine; step rebooting is done; it boots; 590 s are left'
    """
    percent = f"{installation.percent} % are on the disk" if installation.percent else None
    left = f"{max(0.0, installation.deadline - now):.0f} s are left"
    parts = [f"{_DOES[installation.purpose]}; step {installation.step} is done", installation.waits]
    parts += [*observations(installation), percent, left]
    return "; ".join(part for part in parts if part)


# -- the use of a machine by a pool --


def use(view: NodeView) -> Stored[MachineUse] | None:
    """The newest use of the machine, under way or over."""
    return view.world.of(MachineUse).get(view.name)


def in_use(view: NodeView) -> bool:
    """Whether a launched node of a pool has the machine now."""
    stored = use(view)
    return stored is not None and stored.record.returned is None


def use_sentence(view: NodeView) -> str | None:
    """The pool that has the machine, or had it last; None if none ever had."""
    stored = use(view)
    if stored is None:
        return None
    record = stored.record
    pool = f"pool {record.provider}/{record.pool}"
    if record.returned is not None:
        return f"returned to {pool} {_universal(record.returned)}, after label {record.label}"
    return f"node {record.pool_node} of {pool} since {_universal(record.since)}, with label {record.label}"


def resting(view: NodeView) -> bool:
    """Whether it is no cause for alarm that the machine is not alive: it is decommissioned, or was switched off by its pool."""
    stored = use(view)
    if view.record is not None and view.record.decommissioned is not None:
        return True
    return stored is not None and stored.record.returned is not None and switchable(view.world, view.name)


def tokens_from(view: NodeView) -> float:
    """The time before which no token of the machine itself counts (ZooKeeper's clock).

    Its former user may have a copy of an older one: a use by a pool began or ended, the node is decommissioned, or its disks
    are being written. If such a boot fails, the former system has its token again when it is alive. So has a system on disks
    that kept their data, when the node is recommissioned: its pinned host key counts again, too.
    """
    used, done, node = use(view), stored(view), view.record
    times = [0.0]
    if used is not None:
        times.append(used.record.since if used.record.returned is None else used.record.returned)
    if node is not None and node.decommissioned is not None:
        times.append(node.decommissioned)
    if done is not None and done.record.purpose not in KEEPING:
        over = done.record.step is InstallStep.RETIRED
        written = under_way(view) is not None or node is None or not node.alive
        times.append(done.record.since if over else done.record.started if written else 0.0)
    return max(times)


def _universal(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"

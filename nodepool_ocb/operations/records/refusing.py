"""The refusals of ``record delete``, and the numbers that it keeps of a deleted record. Pure.

A record that cannot be read hides its numbers: the generation that its machine knows, the epoch, the number of a rollout.
So ``/ocb/structure`` is raised above all that the record can have had, as far as its neighbours and versions bound it.
A new record of the same name begins there (decision 016).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.engine.world import NodeView, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.kinds import KINDS, PathTree
from nodepool_ocb.model.records import Run, Structure

MANY_GENERATIONS: Final = 2  # that one write of a noderole may count, at most

_ANEW: Final = "write the record anew: zkCli.sh -server HOST set PATH JSON"

#: Kept beside the kinds of records with ``kept`` in their rows: other records count on them.
KEPT: Final = (paths.CLOCK, paths.deployment("system"))
_KEPT: Final = PathTree([row for row in KINDS if row.kept])


def refuse(world: World, path: str, problem: str | None, force: bool) -> None:
    """Raises Conflict unless ``path`` may be deleted: it is unreadable, a claim without an annealer, or ``force`` is given."""
    parts = path.split("/")[2:]
    if path in KEPT or _KEPT.find(path) is not None:
        raise Conflict(f"{path} is never deleted, for other records count on its version or its numbers; {_ANEW}")
    if len(parts) < 2 or _folder(parts):
        raise Conflict(f"{path} is no record; name one; see: nodepool-ocb record list")
    _refuse_work(world, path, parts)
    if problem is None and not force and not _ghost(world, path):
        raise Conflict(f"{path} can be read: use the command of its kind of record; --force deletes it all the same")
    _refuse_dependants(world, parts)


def _folder(parts: Sequence[str]) -> bool:
    """Whether a path is of a znode that only has records below it. Daemons cannot create each of these again, and the numbers
    of builds and uploads would begin at 0 again.

    >>> _folder(["nodes", "n1.example.com", "noderoles"]), _folder(["image", "jammy", "builds"]), _folder(["roles", "ntp"])
    (True, True, False)
    """
    match parts:
        case ["daemons", _] | ["nodes", _, "noderoles"] | ["nodes", _, "noderoles", _, "runs"]:
            return True
        case ["deployments", _, "roles" | "clusters"] | ["rollouts", _, _, "groups" | "nodes" | "lock"]:
            return True
        case ["tasks", "releases" | "deployments" | "runs"] | ["journal", "entries"] | ["paused", _]:
            return True
        case ["tasks", "runs", _, _, _] | ["journal", "webhook", "lock"] | ["daemons", "paused", _]:
            return True
        case (
            ["image", _]
            | ["image", _, "builds"]
            | ["image", _, "builds", "lock"]
            | ["image", _, "builds", _, "provider"]
        ):
            return True
        case ["image", _, "builds", _, "provider", _] | ["image", _, "builds", _, "provider", _, "images"]:
            return True
        case ["image", _, "builds", _, "provider", _, "images", "lock"]:
            return True
        case ["requests-lock", _] | ["nodes", _, "lock"] | ["components", _]:
            return True
    return False


def _refuse_work(world: World, path: str, parts: Sequence[str]) -> None:
    """Raises Conflict for a record of a node on which an annealer works."""
    view = world.nodes.get(parts[1]) if parts[0] == "nodes" else None
    elsewhere = view is not None and path != paths.claim(view.name)
    if view is not None and view.claim is not None and elsewhere and world.may_run(view.claim.annealer):
        raise Conflict(
            f"annealer {view.claim.annealer} works on {view.name}; wait until that has ended;"
            f" see: nodepool-ocb node show {view.name}"
        )
    if view is not None and path == paths.claim(view.name) and path not in world.unreadable and not _ghost(world, path):
        raise Conflict(f"{path} is of an annealer that is running; stop that annealer, and the claim goes")


def _ghost(world: World, path: str) -> bool:
    """Whether it is a claim of an annealer that is not running."""
    parts = path.split("/")[2:]
    view = world.nodes.get(parts[1]) if len(parts) == 3 and parts[0] == "nodes" and parts[2] == "claim" else None
    claim = view.claim if view is not None else None
    return view is not None and claim is not None and (not world.may_run(claim.annealer) or not view.claim_owner)


def _refuse_dependants(world: World, parts: Sequence[str]) -> None:
    """Raises Conflict if other records name the record."""
    match parts:
        case ["roles", name] if name in world.roles:  # one that cannot be read is deleted, and imported again
            holds = [vertex.name for vertex in world.vertices() if vertex.role == name]
        case ["deployments", name]:
            holds = [*_nodes_in(world, name), *(v.name for v in world.vertices() if v.record.deployment == name)]
            holds += [each for each, stored in world.deployments.items() if stored.record.parent == name]
        case ["nodes", fqdn]:
            own = world.nodes[fqdn].noderoles.values() if fqdn in world.nodes else ()
            holds = [child.name for vertex in own for child in vertex.children if child.node.name != fqdn]
        case ["nodes", fqdn, "noderoles", role]:
            holds = [child.name for child in world.below(paths.noderole_name(role, fqdn))]
        case _:
            return
    if holds:
        more = f" and {len(holds) - 1} more" if len(holds) > 1 else ""
        raise Conflict(
            f"{sorted(holds)[0]}{more} would be left without it; delete these first (noderoles with nodepool-ocb record"
            f" delete --force PATH, and bind them again afterwards), or {_ANEW}"
        )


def _nodes_in(world: World, deployment: str) -> list[str]:
    return [view.name for view in world.nodes.values() if view.record and view.record.deployment == deployment]


def raised(
    world: World, record: Structure, versions: Mapping[str, int], runs: Iterable[Run], rollouts: Iterable[int]
) -> Structure:
    """The structure above all numbers that the deleted records can have had.

    ``versions``: of each path that goes; ``runs``: the records of runs among it; ``rollouts``: numbers among it.
    """
    generation, epoch = record.generation, record.epoch
    for each, version in versions.items():
        match each.split("/")[2:]:
            case ["nodes", fqdn, "noderoles", role]:
                vertex = world.vertex(paths.noderole_name(role, fqdn))
                known = vertex.record.generation if vertex is not None else 0
                generation = max(generation, known, record.generation + MANY_GENERATIONS * (version + 1))
            case ["nodes", fqdn, "fence"]:
                epoch = max(epoch, _epoch(world.nodes.get(fqdn), record, version))
    for run in runs:
        generation, epoch = max(generation, run.generation + 1), max(epoch, run.epoch + 1)
    return replace(record, generation=generation, epoch=epoch, rollout=max([record.rollout, *rollouts]))


def _epoch(view: NodeView | None, record: Structure, version: int) -> int:
    """Above that of a node's newest claim: no base is above that of the structure."""
    known = view.epoch if view is not None else 0
    return max(known, record.epoch + version) + 1

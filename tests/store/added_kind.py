"""A record kind of one struct and one row; run in a process of its own, for modules read the table when they are imported.

``python -m tests.store.added_kind HOSTS`` prints the facts about the kind as one line of JSON, for test_a_new_kind.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.model import kinds
from nodepool_ocb.model.kinds import Access, RecordKind, Wake
from nodepool_ocb.model.records import Create, Delete, Record, Set


class Rack(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """A rack of machines: ``racks/<rack>``."""

    power: str = "off"  # on or off
    units: int = 42


ROW: Final = RecordKind(
    record=Rack,
    paths=("/ocb/racks/{rack}",),
    name="rack",
    wakes=Wake.WRITTEN,
    folder=Access(annealer="r", api="cdrw"),
)
PATH: Final = "/ocb/racks/r1"
OTHER: Final = "/ocb/racks/r2"
PATIENCE_SECONDS: Final = 30.0


def of_world() -> dict[str, Any]:
    """Put and dropped."""
    from nodepool_ocb.engine.world import Stored, World

    world = World()
    world.put(Stored(Rack(power="on"), 3), "r1")
    put = {name: stored.record.power for name, stored in world.of(Rack).items()}
    copied = World()
    copied.put_all(world)
    return {"put": put, "copied": list(copied.of(Rack)), "dropped": [world.drop(Rack, "r1"), world.drop(Rack, "r1")]}


def of_zookeeper(hosts: str) -> dict[str, Any]:
    """Loaded, followed, written, spoiled, judged for deletion and named, against a real server."""
    from nodepool_ocb.config import ZooKeeperSettings
    from nodepool_ocb.engine.world import World
    from nodepool_ocb.store import clusters, quarantine
    from nodepool_ocb.store.client.session import Session
    from nodepool_ocb.store.subtree import removal_as_judged
    from nodepool_ocb.store.world.cache import Cache
    from nodepool_ocb.store.world.changeset import ChangeSet
    from nodepool_ocb.store.world.load import load_world

    settings = ZooKeeperSettings(hosts=hosts)
    facts: dict[str, Any] = {}
    with Session(settings) as own, Session(settings) as other:
        clusters.bootstrap(own)
        own.commit([Create("/ocb/racks"), Create(PATH, Rack())])
        facts["loaded"] = {name: stored.record.power for name, stored in load_world(own).of(Rack).items()}
        woken = threading.Semaphore(0)
        cache = Cache(own, World(), woken.release)
        facts["wakes at load"] = cache.load().has(Rack)
        racks = cache.world.of(Rack)

        def refreshed(until: Callable[[], bool]) -> bool:
            """Whether a change of racks was reported by the time that this holds."""
            reported = False
            while not until():
                assert woken.acquire(timeout=PATIENCE_SECONDS), "the watch woke nobody"
                changes: ChangeSet = cache.refresh()
                reported = reported or changes.has(Rack)
            return reported

        other.commit([Set(PATH, Rack(power="on"), 0)])
        facts["wakes at a change"] = refreshed(lambda: racks["r1"].record.power == "on")
        other.commit([Create(OTHER, Rack())])
        facts["wakes at a new one"] = refreshed(lambda: "r2" in racks)
        other.commit([Delete(OTHER, 0)])
        facts["wakes at a deletion"] = refreshed(lambda: "r2" not in racks)

        change = Set(PATH, Rack(power="standby"), 1)
        cache.expect([change])
        cache.committed([change], own.commit([change]))
        facts["own write"] = racks["r1"].record.power
        facts["judged"] = [(each.path, each.version) for each in removal_as_judged(own, cache.world, PATH)]

        cache.refresh()
        other._client.set(PATH, b"{oops")
        facts["wakes when unreadable"] = refreshed(lambda: PATH in cache.world.unreadable)
        facts["last good"] = racks["r1"].record.power
        facts["unreadable"] = list(quarantine.unread(own))
        other._client.set(PATH, b'{"schema":1,"power":"mended"}')
        facts["wakes when mended"] = refreshed(lambda: not cache.world.unreadable)
        facts["mended"] = racks["r1"].record.power
        other._client.delete(PATH)
        cache.sweep()
        facts["swept"] = list(racks)
    return facts


def of_tables() -> dict[str, Any]:
    """Its rights, its name for people, its section of the page, and its damaged record in the hostile village."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))  # the script imports its neighbours
    import generate

    from nodepool_ocb.model import rights
    from nodepool_ocb.store import quarantine
    from nodepool_ocb.store.world.paths import parse
    from nodepool_ocb.views import changes
    from tests.journeys.hostile import village

    (named,) = changes.rows([Create(PATH, Rack())], parse)
    row = rights.row(PATH)
    return {
        "rights": (row.path, row.annealer, row.api, row.builder),
        "kind": getattr(quarantine.kind(PATH), "__name__", None),
        "people": (named.change, named.kind, named.name),
        "page": generate.records(),
        "village": [path for kind, path in village.KINDS if kind is Rack],
    }


def main(hosts: str) -> None:
    """Add the row before any other module reads the table, and print the facts."""
    kinds.KINDS = (*kinds.KINDS, ROW)  # type: ignore[assignment,misc]
    print(json.dumps(of_world() | of_zookeeper(hosts) | of_tables()))


if __name__ == "__main__":
    main(sys.argv[1])

"""The cost of a noderole in counted units, which no other work on the computer changes: bytecodes, and bytes.

``tools/bench`` measures the time. A bound here is the present cost and a few percent. Whoever raises one states the reason in
the commit; if a change makes the cost smaller, lower the bound.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

from nodepool_ocb.engine.inline_runs import InlineRunner, complete_inline
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.world import NodeView, Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Deployment, DeploymentState, Node, NodeRole, Set, State
from nodepool_ocb.store.client import codec, transaction
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.testing.grid import Grid

GRID = Grid(nodes=10, lanes=3, depth=5)
ACTIVE = Grid(nodes=200, lanes=5, depth=10, active=True)

RUNNER = InlineRunner("a1", frozenset({"noop"}), frozenset({"noop"}), "5eed00", 16)

BYTECODES = 2980
BYTECODES_OF_TRANSACTIONS = 4770
BYTES_IN_MEMORY = 525
BYTES_IN_ZOOKEEPER = 240


def znodes(grid: Grid) -> list[Znode]:
    """The noderoles of a grid, as a server sends them, level by level."""
    by = codec.signature()
    places = [
        (node, level, lane) for level in range(grid.depth) for node in range(grid.nodes) for lane in range(grid.lanes)
    ]
    found = []
    for zxid, (node, level, lane) in enumerate(places, start=2**32):
        path = paths.noderole(f"step-{level}-{lane}", grid.fqdn(node))
        found.append(Znode(path, codec.signed(codec.encode(grid.record(node, level, lane)), by), 0, zxid))
    return found


def loaded(read: list[Znode]) -> World:
    """The world with these noderoles."""
    world = World()
    for znode in read:
        _, _, _, fqdn, _, role = znode.path.split("/")
        world.put_noderole(fqdn, role, codec.decode(NodeRole, znode), znode.version, znode.mzxid)
    return world


def converged(read: list[Znode]) -> World:
    """All of them claimed and ACTIVE, one after the other; each new record is encoded."""
    world = loaded(read)
    for vertex in list(world.vertices()):
        world.put_node(vertex.node.name, Node(virtual=True, alive=True), 0)
    for znode in read:
        _, _, _, fqdn, _, role = znode.path.split("/")
        vertex = world.nodes[fqdn].noderoles[role]
        for event in (Event.CLAIM, Event.SUCCEED):
            for moved, record in apply({vertex: event}, 2.0, by="annealer-1").items():
                codec.encode(record)
                world.put_noderole(moved.node.name, moved.role, record, moved.version + 1, moved.mzxid + 1)
    return world


def ready(read: list[Znode]) -> World:
    """The world with these noderoles, and all that an annealer needs to complete them."""
    world = loaded(read)
    world.put(Stored(Deployment(state=DeploymentState.COMMITTED), 0), "system")
    world.put(Stored(Deployment(state=DeploymentState.COMMITTED), 0), "bench")
    world.put(Stored(Daemon(host="h", pid=1, version="1", started=0.0, jigs=("noop",)), 0), "annealer", "a1")
    for vertex in list(world.vertices()):
        world.put(Stored(GRID.role, 0), vertex.role)
        world.put_node(vertex.node.name, Node(virtual=True, alive=True, deployment="bench"), 0)
        world.put_fence(vertex.node.name, 0)
    return world


def completed(world: World) -> None:
    """All instant noderoles ACTIVE, in transactions as an annealer sends them; their records are shown."""
    while sum(complete(view) for view in world.nodes.values()):
        pass


def complete(view: NodeView) -> bool:
    """One transaction for a node, if something may begin there."""
    batch = complete_inline(view, RUNNER, 2.0)
    if batch is None:
        return False
    transaction.pack(batch.changes, "/cluster", lambda _: b"")
    for change in batch.changes:
        if isinstance(change, Set) and isinstance(change.data, NodeRole):
            _, _, _, fqdn, _, role = change.path.split("/")
            view.world.put_noderole(fqdn, role, change.data, change.version + 1)
    return True


def bytecodes(work: Callable[[], Any]) -> int:
    """The number of bytecodes that it executes; code in C counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_way_of_a_noderole_to_active_takes_no_more_bytecodes_than_it_did() -> None:
    read = znodes(GRID)
    world = converged(read)  # once before: caches are full then
    assert {vertex.record.state for vertex in world.vertices()} == {State.ACTIVE}
    assert bytecodes(lambda: converged(read)) / GRID.size <= BYTECODES


def test_the_transactions_of_a_noderole_take_no_more_bytecodes_than_they_did() -> None:
    read = znodes(GRID)
    completed(ready(read))  # once before: caches are full then
    world = ready(read)
    assert bytecodes(lambda: completed(world)) / GRID.size <= BYTECODES_OF_TRANSACTIONS
    assert {vertex.record.state for vertex in world.vertices()} == {State.ACTIVE}


def test_an_active_noderole_takes_no_more_memory_than_it_did() -> None:
    read = znodes(ACTIVE)
    loaded(znodes(GRID))  # once before: caches are full then
    tracemalloc.start()
    try:
        world = loaded(read)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(1 for _ in world.vertices()) == ACTIVE.size
    assert held / ACTIVE.size <= BYTES_IN_MEMORY


def test_an_active_noderole_takes_no_more_bytes_in_zookeeper_than_it_did() -> None:
    assert sum(len(each.data) for each in znodes(ACTIVE)) / ACTIVE.size <= BYTES_IN_ZOOKEEPER

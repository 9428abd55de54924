"""A noderole that publishes boot documents or names: the nodes with open and with faulty documents, and strange servers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from nodepool_ocb.documents.counting import counted, some
from nodepool_ocb.engine.world import Vertex, World
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb.provisioning.servers import listening
from nodepool_ocb.views.times import age

MOST: Final = 5  # names in a sentence, and sentences of one kind


def sentences(world: World, vertex: Vertex, now: float) -> Iterator[str]:
    """None for another role."""
    if vertex.role in boot.PUBLISHING:
        yield from _open(world, vertex)
        yield from _faulty(world, vertex)
    if vertex.role == boot.DHCP:
        yield from _strange(world, vertex, now)


def _open(world: World, vertex: Vertex) -> Iterator[str]:
    """The documents that are not published, with the reason."""
    due = list(publications.due(world, vertex.name))
    if publications.OWN in due:
        yield "the configuration of its server is not published yet"
    reasons = {name: _why(world, vertex, name) for name in due if name != publications.OWN}
    for reason, _ in Counter(reasons.values()).most_common():
        names = [name for name, each in reasons.items() if each == reason]
        yield f"{counted(len(names), 'node')} not published, {reason}: {some(names, MOST)}"


def _why(world: World, vertex: Vertex, name: str) -> str:
    """Why the document of this node is open."""
    found = world.of(Publication).get((vertex.name, name))
    view = world.nodes.get(name)
    if view is None or view.record is None or view.record.deleting:
        return "deleted, with files that are still there"
    if found is None:
        return "new"
    if found.record.directory != publications.directory(world, vertex.name):
        return "lost with the former directory"
    return "changed since"


def _faulty(world: World, vertex: Vertex) -> Iterator[str]:
    """The nodes without a boot script, though their boot environment has one."""
    faults = {
        name: fault
        for name in sorted(world.nodes)
        if (fault := publications.wanted(world, vertex.name, name).fault) is not None
    }
    reasons = Counter(faults.values())
    for reason, count in reasons.most_common(MOST):
        names = [name for name, each in faults.items() if each == reason]
        yield f"{counted(count, 'node')} without a boot script: {some(names, MOST)}: {reason}"
    if len(reasons) > MOST:
        left = sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST))
        yield f"{counted(left, 'node')} more without a boot script, for other reasons; see: nodepool-ocb bootenv show NAME"


def _strange(world: World, vertex: Vertex, now: float) -> Iterator[str]:
    for each in listening.strangers(world):
        if each.heard_by == vertex.node.name:
            yield f"{each.sentence} (heard {age(now - each.at)} ago)"
    found = world.of(Publisher).get(vertex.name)
    if found is not None and found.record.more:
        yield (
            f"more servers of DHCP or offers came than it reads (it notes {listening.MOST} servers): a host sends a flood of"
            " offers, and may hide another server; find its port at the switch"
        )
    if found is not None and found.record.fault:
        yield f"it could not look for other servers of DHCP: {found.record.fault}"

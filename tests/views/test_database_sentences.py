"""The explanation of a noderole that publishes documents: open and faulty ones, in few words also for many nodes."""

from __future__ import annotations

import time

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import Bootenv, BootenvKind, Publication, Publisher
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb.views.provisioning import databases

SERVER = "a1.example.com"
NAME = f"{boot.DHCP}@{SERVER}"
COUNT = 2000


def world() -> World:
    made = World()
    made.put_node(SERVER, Node(alive=True, admin=True), 1)
    made.put_noderole(SERVER, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    made.put(Stored(Publisher(directory="d"), 0), NAME)
    made.put(Stored(Bootenv(kind=BootenvKind.RESCUE, image="x", arguments="rack={rack}"), 0), "odd")
    for number in range(COUNT):
        mac = f"52:54:01:00:{number >> 8:02x}:{number & 255:02x}"
        odd = {"bootenv": "odd", "rack": f"r {number % 7}"} if number % 10 == 0 else {"bootenv": "rescue"}
        made.put_node(f"n{number:04}.example.com", Node(macs=(mac,), **odd), 1)
    return made


def publish(into: World, name: str, directory: str = "d") -> None:
    digest = publications.wanted(into, NAME, name).digest
    into.put(Stored(Publication(digest=digest, directory=directory), 0), NAME, name)


def said(found: World) -> list[str]:
    vertex = found.vertex(NAME)
    assert vertex is not None
    return list(databases.sentences(found, vertex, 9.0))


def test_open_and_faulty_documents_of_2000_nodes_are_a_few_short_sentences() -> None:
    began = time.process_time()
    found = said(world())
    assert time.process_time() - began < 3.0
    assert found[:2] == [
        "the configuration of its server is not published yet",
        "2000 nodes not published, new: n0000.example.com, n0001.example.com, n0002.example.com, n0003.example.com,"
        " n0004.example.com and 1995 more",
    ]
    assert len(found) == 2 + databases.MOST + 1, "seven reasons, of which five are named"
    assert found[2].startswith("29 nodes without a boot script: n0000.example.com, n0070.example.com")
    assert "rack is 'r 0'" in found[2]
    assert found[-1].startswith("56 nodes more without a boot script, for other reasons")
    assert max(map(len, found)) < 300


def test_each_reason_of_an_open_document_is_named() -> None:
    found = world()
    for number in range(COUNT):
        publish(found, f"n{number:04}.example.com")
    publish(found, publications.OWN)
    assert not [each for each in said(found) if "not published" in each]
    found.put_node("n0001.example.com", Node(macs=("52:54:01:00:00:01",), bootenv="local"), 2)
    publish(found, "n0002.example.com", "former")
    found.drop_node("n0003.example.com")
    assert sorted(each for each in said(found) if "not published" in each) == [
        "1 node not published, changed since: n0001.example.com",
        "1 node not published, deleted, with files that are still there: n0003.example.com",
        "1 node not published, lost with the former directory: n0002.example.com",
    ]

"""The documents of one run and their records, the digests that are kept, and the faults of boot environments."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import Bootenv, BootenvKind, Publication, Publisher
from nodepool_ocb.model.installation import BootToken, Installation, InstallStep
from nodepool_ocb.model.records import Create, Delete, Node, NodeRole, Set, State
from nodepool_ocb.provisioning import boot, bootenvs, places, publications, publishing

N1, SERVER = "n1.example.com", "a1.example.com"
NAME = f"{boot.DHCP}@{SERVER}"
FW = Bootenv(kind=BootenvKind.RESCUE, image="fw")


def world(count: int = 1) -> World:
    made = World()
    made.put_node(SERVER, Node(alive=True, admin=True), 1)
    made.put_noderole(SERVER, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    made.put(Stored(Publisher(directory="d"), 0), NAME)
    made.put(Stored(FW, 0), "fw")
    for number in range(1, count + 1):
        mac = f"52:54:00:00:{number >> 8:02x}:{number & 255:02x}"
        made.put_node(f"n{number}.example.com", Node(macs=(mac,), bootenv="fw"), 1)
    return made


def published(found: World, name: str) -> None:
    digest = publications.wanted(found, NAME, name).digest
    found.put(Stored(Publication(digest=digest, directory="d"), 3), NAME, name)


def test_a_kept_digest_does_not_hide_a_change_of_the_node_its_environment_or_its_installation() -> None:
    found, memory = world(), publications.Digests()

    def due() -> bool:
        return N1 in publications.due(found, NAME, memory)

    changes = (
        lambda: found.put_node(N1, Node(macs=("52:54:00:00:00:09",), bootenv="fw"), 2),
        lambda: found.put(Stored(replace(FW, arguments="x=1"), 1), "fw"),
        lambda: installed(found),
    )
    assert due()
    for change in changes:
        published(found, N1)
        assert not due()
        change()
        assert due()


def test_the_digest_of_a_node_that_has_not_changed_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, memory = world(), publications.Digests()
    before = list(publications.due(found, NAME, memory))
    monkeypatch.setattr(boot, "wanted", lambda *_: pytest.fail("it is made again"))
    assert list(publications.due(found, NAME, memory)) == before


def installed(found: World) -> None:
    record = Installation(
        noderole=f"os@{N1}", generation=1, run="r1", epoch=1, since=1.0, started=1.0, deadline=9.0, nonce="0" * 32,
        token_digest="0" * 64, step=InstallStep.REBOOTING,
    )  # fmt: skip
    found.put_noderole(N1, "os", NodeRole(state=State.TRANSITION, since=1.0, generation=1))
    found.put(Stored(record, 0), N1)
    found.put(Stored(BootToken(text="ocb_1_2"), 0), N1)


def test_one_run_gets_no_more_documents_than_one_transaction_can_record() -> None:
    text = publishing.material(world(300), NAME)["provisioner"]["documents"]
    assert sum(line.startswith("N ") for line in text.splitlines()) == publishing.BATCH


def test_a_record_has_the_version_and_the_environment_of_its_node_and_goes_with_the_files() -> None:
    found = world()

    def record(digest: str) -> object:
        returned = {"provisioner": {"published": {N1: digest}, "directory": "d"}}
        [change] = publishing.records(found, NAME, returned, 5.0)
        return change

    made = record("abc")
    assert isinstance(made, Create)
    assert made.data == Publication(digest="abc", directory="d", version=1, bootenv="fw", at=5.0)
    published(found, N1)
    assert isinstance(record("abc"), Set)
    assert isinstance(record("-"), Delete)


@pytest.mark.parametrize(
    ("name", "bootenv", "fault"),
    [
        ("Fw", FW, "'Fw' can be no name"),
        ("fw", replace(FW, image="../x"), "image '../x': write the name of a disk image"),
        ("fw", replace(FW, description="a\tb"), "description: write one line"),
        ("fw", replace(FW, description="x" * 201), "description: write one line"),
    ],
)
def test_each_fault_of_a_boot_environment_is_named(name: str, bootenv: Bootenv, fault: str) -> None:
    [said] = bootenvs.faults(name, bootenv)
    assert said.startswith(fault)


def test_a_script_has_a_largest_size() -> None:
    assert list(places.script_faults("#!ipxe\n" + "x" * 8186)) == ["it has 8193 characters; at most 8192 may be given"]

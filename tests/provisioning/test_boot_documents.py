"""The files that make a node boot, and the servers that have not published them."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.boot import SHIPPED, Bootenv, BootenvKind, Publication, Publisher
from nodepool_ocb.model.records import Node, NodeRole, State, Suspicion
from nodepool_ocb.provisioning import boot, bootenvs, places, publications
from nodepool_ocb.provisioning.boot import BootDocument, BootSecrets

N1, ADMIN, OTHER = "n1.example.com", "a1.example.com", "a2.example.com"
MAC = "52:54:00:00:00:01"
PLACE: Any = {"macs": (MAC,), "networks": {"admin": ("10.1.0.21",)}}
OWN = BootSecrets(nonce="f00d", token="ocb_0123_secret")


def made(bootenv: str = "rescue", secrets: BootSecrets = BootSecrets(), **fields: object) -> BootDocument:  # noqa: B008
    node = Node(bootenv=bootenv, **(PLACE | fields))
    return boot.document(N1, node, bootenvs.known(World()).get(bootenv), secrets)


def world(**bootenv: str) -> World:
    """A node, and two admin nodes with the database role."""
    found = World()
    found.put_node(N1, Node(**(PLACE | {"bootenv": "rescue"} | bootenv)), 1)
    for admin in (ADMIN, OTHER):
        found.put_node(admin, Node(alive=True, admin=True), 1)
        found.put_noderole(admin, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    return found


def publish(into: World, admin: str, digest: str, directory: str = "d1") -> None:
    name = f"{boot.DHCP}@{admin}"
    into.put(Stored(Publication(digest=digest, directory=directory), 0), name, N1)
    own = publications.wanted(into, name, publications.OWN).digest
    into.put(Stored(Publication(digest=own, directory=directory), 0), name, publications.OWN)


def test_a_node_has_a_fixed_address_and_a_script_under_its_mac() -> None:
    files = made().files
    assert files[f"hosts.d/{N1}"] == f"{MAC},set:own-{N1},set:own,10.1.0.21,{N1}\n"
    assert files[f"boots.d/{N1}.conf"] == (
        f"dhcp-boot=tag:ipxe,tag:own-{N1},@SERVER@/boot/52-54-00-00-00-01.ipxe,,@ADDRESS@\n"
    )
    script = files["http/boot/52-54-00-00-00-01.ipxe"]
    assert script.startswith("#!ipxe\n")
    assert f"ocb.mode=rescue ocb.mac={MAC} ocb.node={N1} ocb.server=${{server}}" in script
    assert "${build}" in script
    assert "ocb.boot" not in script, "no installation is under way"
    assert "{node}" not in script


def test_a_node_that_boots_its_disk_has_no_script_and_one_in_deletion_has_nothing() -> None:
    assert made("local").files == {f"hosts.d/{N1}": f"{MAC},set:local,10.1.0.21,{N1}\n"}
    found = world()
    assert boot.wanted(found, N1).files
    found.put_node(N1, Node(**PLACE, bootenv="rescue", deleting=True), 2)
    assert boot.wanted(found, N1) == boot.NOTHING
    assert boot.wanted(found, "gone.example.com").digest == ""
    assert made(macs=()).files == {}, "without a MAC it cannot be told from others"


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    both = {"admin": ("10.1.0.21", "fd00:1::21")}
    assert made("local", networks=both).files[f"hosts.d/{N1}"] == f"{MAC},set:local,10.1.0.21,[fd00:1::21],{N1}\n"


def test_the_script_of_a_boot_that_we_caused_has_a_name_that_cannot_be_guessed() -> None:
    files = made("install", OWN).files
    scripts = [path for path in files if path.endswith(".ipxe")]
    assert scripts == ["http/boot/f00d.ipxe"], "no script under the MAC, which every stranger can see"
    assert "ocb.boot=ocb_0123_secret" in files["http/boot/f00d.ipxe"]
    assert "secret" not in files[f"hosts.d/{N1}"] + files[f"boots.d/{N1}.conf"]


def test_each_value_of_the_document_changes_its_digest() -> None:
    documents = [made(), made("discovery"), made("install"), made("install", OWN), made("local"), made(macs=())]
    documents.append(made(networks={"admin": ("10.1.0.22",)}))
    assert len({each.digest for each in documents}) == len(documents)
    assert made().digest == made().digest


def test_the_names_of_a_node_are_a_document_of_their_own() -> None:
    found = world()
    assert boot.wanted(found, N1, boot.DNS).files == {f"names.d/{N1}": f"10.1.0.21 {N1}\n"}


def test_a_value_that_would_be_a_word_of_a_kernel_or_of_ipxe_makes_no_script() -> None:
    bootenv = Bootenv(kind=BootenvKind.RESCUE, image="rescue", arguments="ocb.site={labels.site}")
    for odd in ("a b", "a\nshell", "${shell}", "'", "a||b"):
        found = boot.document(N1, Node(**PLACE, labels={"site": odd}), bootenv, BootSecrets())
        assert list(found.files) == [f"hosts.d/{N1}"]
        assert found.fault is not None
        assert "labels.site is" in found.fault
    fine = boot.document(N1, Node(**PLACE, labels={"site": "west"}), bootenv, BootSecrets())
    assert "ocb.site=west" in fine.files["http/boot/52-54-00-00-00-01.ipxe"]


def test_an_unknown_boot_environment_boots_the_disk_and_says_so() -> None:
    found = made("firmwre")
    assert found.fault == "boot environment firmwre does not exist"
    assert "set:local" in found.files[f"hosts.d/{N1}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a={nod}", "{nod} is no value of a node; did you mean `node`?"),
        ("a={label.rack}", "{label.rack} is no value of a node; did you mean `labels.rack`?"),
        ("a={node", "a brace has no partner; write {NAME}"),
        ("a={}", "{} has no name"),
        ("a\nb", "write printable ASCII with single spaces between the arguments"),
        ("a=${net0/mac}", "$, || and && are words of iPXE, and can be in no kernel argument"),
        ("a || shell", "$, || and && are words of iPXE, and can be in no kernel argument"),
        ("x" * 1025, "it has 1025 characters; at most 1024 may be given"),
        ("a={node.__class__}", "{node.__class__} is no value of a node"),
    ],
)
def test_a_template_of_arguments_is_checked(text: str, said: str) -> None:
    assert any(each.startswith(said) for each in places.arguments_faults(text)), list(places.arguments_faults(text))


def test_the_shipped_environments_pass_the_checks() -> None:
    assert [fault for name, each in SHIPPED.items() for fault in bootenvs.faults(name, each)] == []
    assert list(places.script_faults(bootenvs.SCRIPT)) == []
    with pytest.raises(Invalid, match="did you mean `rescue`"):
        bootenvs.refuse_unknown(World(), "rescu")


def test_a_living_server_without_a_current_publication_is_named() -> None:
    found, digest = world(), boot.wanted(world(), N1).digest
    assert publications.unpublished(found, N1) == (ADMIN, OTHER)
    for admin in (ADMIN, OTHER):
        found.put(Stored(Publisher(directory="d1"), 0), f"{boot.DHCP}@{admin}")
        publish(found, admin, digest)
    assert publications.unpublished(found, N1) == ()
    publish(found, ADMIN, "another")
    assert publications.unpublished(found, N1) == (ADMIN,)
    assert list(publications.due(found, f"{boot.DHCP}@{ADMIN}")) == [N1]


def test_a_server_that_is_away_or_not_ready_is_not_waited_for() -> None:
    for record in (Node(), Node(alive=True, available=False)):
        found = world()
        found.put_node(ADMIN, record, 2)
        assert publications.unpublished(found, N1) == (OTHER,)
    found = world()
    found.put_noderole(ADMIN, boot.DHCP, NodeRole(state=State.ERROR, since=1.0), 1)
    found.put_noderole(OTHER, boot.DHCP, NodeRole.of(state=State.TRANSITION, since=1.0, refresh=True), 1)
    assert publications.unpublished(found, N1) == (OTHER,), "one that runs again in place still answers machines"


def test_a_server_that_one_annealer_does_not_reach_is_waited_for_and_named() -> None:
    found, suspicion = world(), Suspicion(by="annealer-1", reason="connect: No route to host", since=1.0)
    found.put_node(ADMIN, Node(alive=True, suspicion=suspicion), 2)
    waiting = publications.unpublished(found, N1)
    assert waiting == (ADMIN, OTHER)
    found.put_fence("half.example.com", 0)  # a node without a record
    assert publications.unreached(found, (*waiting, "gone.example.com", "half.example.com")) == (ADMIN,)


def test_images_come_from_each_server_that_lives() -> None:
    found = world()
    for admin in (ADMIN, OTHER):
        found.put(Stored(Publisher(directory="d1", address=f"http://{admin}:8480"), 0), f"{boot.DHCP}@{admin}")
    assert publications.addresses(found) == (f"http://{ADMIN}:8480", f"http://{OTHER}:8480")
    found.put_node(ADMIN, Node(), 2)
    assert publications.addresses(found) == (f"http://{OTHER}:8480",)
    found.put(Stored(Publisher(directory="d1"), 1), f"{boot.DHCP}@{OTHER}")
    found.put_node("new.example.com", Node(alive=True, admin=True), 1)
    for fqdn in ("new.example.com", "half.example.com"):  # of the second the node itself was not read
        found.put_noderole(fqdn, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    assert publications.addresses(found) == (), "none of them says where its server is"
    assert [each.node.name for each in publications.servers(found)] == [OTHER, "new.example.com"]


def test_servers_with_older_files_of_a_node_are_named_also_dead_ones() -> None:
    found, digest = world(), boot.wanted(world(), N1).digest

    def published(noderole: str, digest: str, at: float, fqdn: str = N1) -> None:
        found.put(Stored(Publication(digest=digest, directory="d1", at=at), 0), noderole, fqdn)

    for name in ("dead.example.com", ADMIN, OTHER):
        found.put(Stored(Publisher(directory="d1"), 0), f"{boot.DHCP}@{name}")
    published(f"{boot.DHCP}@dead.example.com", "older", 9.0)
    published(f"{boot.DHCP}@{ADMIN}", digest, 9.0)
    published(f"{boot.DHCP}@{OTHER}", "older", 10.0)  # it has published since then, and will again
    published(f"{boot.DNS}@{ADMIN}", "older", 9.0)  # it boots no machine
    published(f"{boot.DHCP}@a3.example.com", "older", 9.0, "n2.example.com")
    assert publications.outdated(found, N1, 10.0) == ("dead.example.com",)


def test_a_server_of_names_has_a_document_of_its_own_and_one_without_a_directory_has_all_to_publish() -> None:
    found = world()
    name = f"{boot.DNS}@{ADMIN}"
    own = publications.wanted(found, name, publications.OWN)
    assert [*own.files] == ["conf.d/dns.conf"]
    found.put(Stored(Publication(digest=own.digest, directory="d1"), 0), name, publications.OWN)
    assert not publications.current(found, name, publications.OWN, own.digest)


def test_the_files_of_a_directory_that_was_lost_are_due_again() -> None:
    found, digest = world(), boot.wanted(world(), N1).digest
    name = f"{boot.DHCP}@{ADMIN}"
    found.put(Stored(Publisher(directory="d1"), 0), name)
    publish(found, ADMIN, digest)
    assert list(publications.due(found, name)) == []
    found.put(Stored(Publisher(directory="d2"), 1), name)
    assert list(publications.due(found, name)) == [publications.OWN, N1]


def test_the_files_of_a_deleted_node_are_due_until_the_server_has_removed_them() -> None:
    found = world()
    name = f"{boot.DHCP}@{ADMIN}"
    found.put(Stored(Publisher(directory="d1"), 0), name)
    publish(found, ADMIN, boot.wanted(found, N1).digest)
    found.drop_node(N1)
    assert list(publications.due(found, name)) == [N1]
    found.drop(Publication, name, N1)
    assert list(publications.due(found, name)) == []

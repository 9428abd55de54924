"""The configuration of a server of DHCP and DNS: each line that depends on a record. No server."""

from __future__ import annotations

from typing import Any, Final

import pytest

from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import Bootenv, BootenvKind
from nodepool_ocb.model.networks import Network, RelaySegment
from nodepool_ocb.model.records import Node, NodeRole, State
from nodepool_ocb.provisioning import boot
from nodepool_ocb.provisioning.addressing import slices
from nodepool_ocb.provisioning.servers import listening, serverfiles

SERVER, OTHER = "a1.example.com", "a2.example.com"
DYNAMIC: Final = {"dhcp": "10.1.0.100-10.1.0.139"}


def world(**fields: Any) -> World:
    made = World()
    known = {"subnet": "10.1.0.0/24", "router": "10.1.0.1", "ranges": DYNAMIC, "slices": {SERVER: 0}}
    made.put(Stored(Network(**(known | fields)), 0), "admin")
    return made


def lines(server: str = SERVER, **fields: Any) -> list[str]:
    return serverfiles.dhcp(world(**fields), server).splitlines()


def test_a_server_offers_its_own_part_of_the_range_and_one_without_a_part_fixed_addresses_alone() -> None:
    assert "dhcp-range=set:net-admin,10.1.0.100,10.1.0.109,255.255.255.0,1h" in lines()
    assert "dhcp-range=set:net-admin,10.1.0.0,static,255.255.255.0,1h" in lines(OTHER)
    assert "dhcp-range=set:net-admin,10.1.0.0,static,255.255.255.0,1h" in lines(ranges={})


def test_no_machine_waits_while_the_address_of_another_is_pinged() -> None:
    """dnsmasq does so for three seconds each, one machine after the other."""
    assert "no-ping" in serverfiles.dhcp(world(), SERVER).splitlines()


def test_a_segment_behind_a_relay_has_a_range_and_a_router_of_its_own() -> None:
    plain = RelaySegment(subnet="10.2.0.0/24", router="10.2.0.1")
    dynamic = RelaySegment(subnet="10.3.0.0/24", router="10.3.0.1", dhcp="10.3.0.8-10.3.0.15")
    found = lines(segments=(plain, dynamic))
    assert "dhcp-range=set:net-admin-10-2-0-0,10.2.0.0,static,255.255.255.0,1h" in found
    assert "dhcp-range=set:net-admin-10-3-0-0,10.3.0.8,10.3.0.9,255.255.255.0,1h" in found
    assert "dhcp-option=tag:net-admin-10-3-0-0,option:router,10.3.0.1" in found
    network = world(segments=(plain, dynamic)).of(Network)["admin"].record
    assert [*slices.parts(network, SERVER)] == ["dhcp", "10.3.0.0/24"], "a segment without a range has no part"
    assert slices.parts(network, OTHER) == {}


def test_a_network_with_ipv6_is_announced_with_the_part_of_the_server_or_without_dynamic_addresses() -> None:
    own = lines(subnet6="fd00::/64", ranges={**DYNAMIC, "dhcp6": "fd00::100-fd00::13f"})
    assert "dhcp-range=set:net-admin,fd00::100,fd00::10f,64,1h" in own
    assert "dhcp-range=set:net-admin,fd00::,static,64,1h" in lines(subnet6="fd00::/64")
    assert "enable-ra" in own
    assert "enable-ra" not in lines()


def test_in_proxy_mode_the_server_gives_boot_files_and_no_address() -> None:
    found = lines(proxy=True, ranges={})
    assert "dhcp-range=set:net-admin,10.1.0.0,proxy,255.255.255.0" in found
    assert sum(line.startswith("pxe-service=tag:net-admin,") for line in found) == 2
    assert not any(line.startswith("pxe-service") for line in lines())


def test_options_of_ipv4_have_no_address_of_ipv6_and_no_value_that_machines_have_by_themselves() -> None:
    found = lines(nameservers=("10.1.0.53", "fd00::53"), ntp=("fd00::7b", "10.1.0.12"), mtu=9000, domain="lab.example")
    options = {line.split(",option:")[1] for line in found if ",option:" in line and line.startswith("dhcp-option=")}
    assert options == {
        "router,10.1.0.1", "dns-server,10.1.0.53", "ntp-server,10.1.0.12", "domain-name,lab.example", "mtu,9000",
    }  # fmt: skip
    assert not any("option:mtu" in line or "option:dns-server" in line for line in lines())


def test_a_server_ignores_the_macs_with_which_admin_nodes_look_for_other_servers() -> None:
    made = world()
    made.put_node(OTHER, Node(admin=True), 0)
    made.put_noderole(OTHER, boot.DHCP, NodeRole(state=State.ACTIVE, since=1.0))
    assert f"dhcp-host={listening.mac(OTHER)},ignore" in serverfiles.dhcp(made, SERVER).splitlines()
    assert not any(line.endswith(",ignore") for line in lines())


@pytest.mark.parametrize("secure", [False, True])
def test_an_unknown_machine_boots_by_shim_where_its_environment_says_so(secure: bool) -> None:
    made = world()
    own = Bootenv(
        kind=BootenvKind.DISCOVERY, image="env", arguments="x=1", secure=secure, script="#!ipxe\necho {image}\n"
    )
    made.put(Stored(own, 0), "discovery")
    program = "shimx64.efi" if secure else "ipxe.efi"
    assert f"dhcp-boot=tag:efi,tag:!ipxe,tag:!local,tag:!own,{program}" in serverfiles.dhcp(made, SERVER).splitlines()
    assert (serverfiles.unknown_secure(made) is not None) is secure
    assert serverfiles.unknown(made) == "#!ipxe\necho env\n", "its own script"


def test_dns_answers_for_the_domains_of_networks_alone() -> None:
    made = world(domain="lab.example")
    made.put(Stored(Network(subnet="10.9.0.0/24"), 0), "bare")
    assert [line for line in serverfiles.names(made).splitlines() if line.startswith("local=")] == [
        "local=/lab.example/"
    ]

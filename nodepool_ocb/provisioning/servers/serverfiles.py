"""The files of a server that belong to no node: the configuration of dnsmasq, and the script of unknown machines. Pure.

``@ROOT@`` stands for the directory of the server, and ``@SERVER@`` for its address. A server of DHCP offers its part of each
dynamic range to unknown machines. Nodes get their fixed addresses from each server.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.boot import Bootenv
from nodepool_ocb.model.networks import Network, RelaySegment
from nodepool_ocb.provisioning import boot, bootenvs, places, secureboot
from nodepool_ocb.provisioning.addressing import slices
from nodepool_ocb.provisioning.secureboot import SHIM
from nodepool_ocb.provisioning.servers import listening

SERVER, ADDRESS = boot.SERVER, boot.ADDRESS
LEASE: Final = "1h"

#: Firmware by the architecture that it names, and the program that each gets; iPXE itself gets a script.
BOOT: Final = f"""\
dhcp-userclass=set:ipxe,iPXE
dhcp-match=set:ipxe,175
dhcp-match=set:bios,option:client-arch,0
dhcp-match=set:efi,option:client-arch,7
dhcp-match=set:efi,option:client-arch,9
dhcp-match=set:efihttp,option:client-arch,16
dhcp-boot=tag:ipxe,tag:!local,tag:!own,{SERVER}/boot/default.ipxe,,{ADDRESS}
dhcp-boot=tag:bios,tag:!ipxe,tag:!local,undionly.kpxe
@EFI@
dhcp-boot=tag:efihttp,tag:!ipxe,tag:!local,{SERVER}/ipxe.efi
dhcp-option-force=tag:efihttp,tag:!local,60,HTTPClient
"""

#: Without pings: dnsmasq pings each new address for three seconds and answers no other machine meanwhile. Firmware gives up
#: after some fifteen seconds, so of eight machines that were switched on together three had no address.
DATABASES: Final = """\
no-ping
dhcp-hostsfile=@ROOT@/hosts.d
dhcp-optsfile=@ROOT@/opts.d
conf-dir=@ROOT@/boots.d,*.conf
dhcp-leasefile=@ROOT@/run/leases
log-dhcp
"""


def dhcp(world: World, server: str) -> str:
    """The lines of dnsmasq for the networks that this server serves."""
    networks = sorted((name, stored.record) for name, stored in world.of(Network).items())
    lines = [line for name, network in networks for line in _network(name, network, server)]
    lines += [f"dhcp-host={mac},ignore" for mac in listening.ignored(world)]
    return DATABASES + BOOT.replace("@EFI@", _efi(world)) + "".join(f"{line}\n" for line in lines)


def _efi(world: World) -> str:
    """The first program of UEFI: shim where the boot environment of the machine says so, else iPXE."""
    unknown = SHIM if bootenvs.known(world)["discovery"].secure else "ipxe.efi"
    ways = (("tag:own,tag:secure", SHIM), ("tag:own,tag:!secure", "ipxe.efi"), ("tag:!own", unknown))
    return "\n".join(f"dhcp-boot=tag:efi,tag:!ipxe,tag:!local,{tags},{program}" for tags, program in ways)


def names(world: World) -> str:
    """The lines of dnsmasq for DNS; it answers for the domains of networks alone from its own files."""
    domains = sorted({stored.record.domain for stored in world.of(Network).values() if stored.record.domain})
    return "port=53\naddn-hosts=@ROOT@/names.d\n" + "".join(f"local=/{domain}/\n" for domain in domains)


def unknown(world: World) -> str:
    """The iPXE script of a machine that is no node: the environment ``discovery``."""
    found = bootenvs.known(world)["discovery"]
    arguments, values = _discovery(found, "${mac}"), _values(found)
    trusted = {"arguments": " ".join(arguments), "server": SERVER}
    return places.filled(found.script or bootenvs.SCRIPT, values, trusted)


def unknown_secure(world: World) -> str | None:
    """The same for GRUB, under Secure Boot; None if unknown machines boot by iPXE."""
    found = bootenvs.known(world)["discovery"]
    if not found.secure:
        return None
    return secureboot.config("", "discovery", found.image, _discovery(found, "${net_default_mac}"))


def _values(found: Bootenv) -> dict[str, str]:
    return {"image": found.image, "bootenv": "discovery", "mode": str(found.kind), "node": ""}


def _discovery(found: Bootenv, mac: str) -> list[str]:
    """The arguments of the kernel; ``mac``: the variable of the boot loader."""
    ours = [f"ocb.mode={found.kind}", f"ocb.mac={mac}", "ocb.server=${server}"]
    root = ["ocb.root=${image}/${build}/root.squashfs", "ocb.root_sha256=${root_sha256}"]
    return [*ours, *root, *places.filled(found.arguments, _values(found)).split()]


def _network(name: str, network: Network, server: str) -> Iterator[str]:
    tag, parts = f"net-{name}", slices.parts(network, server)
    if network.subnet:
        yield _range4(tag, network.subnet, parts.get("dhcp", ""), network.proxy)
        yield from _options(tag, network, network.router)
        for segment in network.segments:
            yield from _segment(tag, network, segment, parts.get(segment.subnet, ""))
    if network.subnet6:
        subnet = ip_network(network.subnet6)
        part = parts.get("dhcp6", "").replace("-", ",") or f"{subnet.network_address},static"
        yield f"dhcp-range=set:{tag},{part},{subnet.prefixlen},{LEASE}"
        yield "enable-ra"
    if network.proxy:
        yield f'pxe-service=tag:{tag},tag:!ipxe,tag:!local,x86PC,"network boot",undionly.kpxe'
        yield f'pxe-service=tag:{tag},tag:!ipxe,tag:!local,X86-64_EFI,"network boot",ipxe.efi'


def _segment(tag: str, network: Network, segment: RelaySegment, part: str) -> Iterator[str]:
    own = f"{tag}-{segment.subnet.partition('/')[0].replace('.', '-')}"
    yield _range4(own, segment.subnet, part, proxy=False)
    yield from _options(own, network, segment.router)


def _range4(tag: str, subnet: str, part: str, proxy: bool) -> str:
    found = ip_network(subnet)
    if proxy:
        return f"dhcp-range=set:{tag},{found.network_address},proxy,{found.netmask}"
    addresses = part.replace("-", ",") or f"{found.network_address},static"
    return f"dhcp-range=set:{tag},{addresses},{found.netmask},{LEASE}"


def _options(tag: str, network: Network, router: str) -> Iterator[str]:
    values = {
        "router": router,
        "dns-server": ",".join(each for each in network.nameservers if ":" not in each),
        "ntp-server": ",".join(each for each in network.ntp if ":" not in each),
        "domain-name": network.domain,
        "mtu": "" if network.mtu == 1500 else str(network.mtu),
    }
    yield from (f"dhcp-option=tag:{tag},option:{key},{value}" for key, value in values.items() if value)

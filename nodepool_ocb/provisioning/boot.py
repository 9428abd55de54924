"""The boot document of a node: the files by which a server makes it boot, and their digest. Pure.

It depends on the node's record, its boot environment and the secrets of its installation. So each server has the same document:
the text ``@SERVER@`` stands for the address of the server. A node without a MAC, or one that is being deleted, has no files.
A node that boots from its disk has a fixed address, and no script.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.boot import Bootenv, BootenvKind
from nodepool_ocb.model.records import Node
from nodepool_ocb.provisioning import bootenvs, places, secureboot

DHCP: Final = "provisioner-dhcp-database"
DNS: Final = "dns-database"
PUBLISHING: Final = (DHCP, DNS)  # the roles that publish documents

SERVER: Final = "@SERVER@"  # http://ADDRESS:PORT of the server that publishes the document
ADDRESS: Final = "@ADDRESS@"  # the address alone; iPXE wants one beside the file of a server that gives no addresses
_DIGEST_CHARACTERS: Final = 32


class BootSecrets(msgspec.Struct, frozen=True):
    """The secrets of a boot that we caused: the name of its script, and the token in it; empty without one."""

    nonce: str = ""
    token: str = ""


class BootDocument(msgspec.Struct, frozen=True):
    """Files by their path below the directory of a server. ``fault``: why there is no boot script, though one is wanted."""

    files: Mapping[str, str]
    fault: str | None = None

    @property
    def digest(self) -> str:
        """Equal for equal files, and empty without files."""
        if not self.files:
            return ""
        return hashlib.sha256(msgspec.json.encode(self.files, order="sorted")).hexdigest()[:_DIGEST_CHARACTERS]


NOTHING: Final = BootDocument({})


def secrets_of(world: World, fqdn: str) -> BootSecrets:
    """The secrets of the node's installation; empty if none is under way. The token goes with its use."""
    view = world.node(fqdn)
    found, token = installing.under_way(view), installing.boot_token(view)
    if found is None:
        return BootSecrets()
    return BootSecrets(found.record.nonce, token.record.text if token is not None else "")


def addresses_of(node: Node) -> tuple[str, ...]:
    """Its fixed addresses, of each network in turn."""
    return tuple(address for _, addresses in sorted(node.networks.items()) for address in addresses)


def wanted(world: World, fqdn: str, role: str = DHCP) -> BootDocument:
    """The document that a noderole of this role must publish for a node; without files for an unknown node."""
    view = world.nodes.get(fqdn)
    if view is None or view.record is None or view.record.deleting:
        return NOTHING
    if role == DNS:
        return names(fqdn, view.record)
    found = bootenvs.known(world).get(view.record.bootenv)
    return document(fqdn, view.record, found, secrets_of(world, fqdn))


def names(fqdn: str, node: Node) -> BootDocument:
    """The names of a node in DNS: one line of a hosts file for each address."""
    lines = "".join(f"{address} {fqdn}\n" for address in addresses_of(node))
    return BootDocument({f"names.d/{fqdn}": lines} if lines else {})


def document(fqdn: str, node: Node, bootenv: Bootenv | None, secrets: BootSecrets) -> BootDocument:
    """The files for DHCP and the boot script. ``bootenv``: None if the one that the node names does not exist."""
    macs = node.macs
    if not macs:
        return NOTHING
    local = bootenv is None or bootenv.kind is BootenvKind.LOCAL
    script, fault, arguments = (None, None, []) if local else _script(fqdn, node, bootenv, secrets)
    if bootenv is None:
        fault = f"boot environment {node.bootenv} does not exist"
    own = f"own-{fqdn}" if script is not None else "local"
    tags = ["own"] if script is not None else []
    tags += ["secure"] if script is not None and bootenv is not None and bootenv.secure else []
    host = [*macs, f"set:{own}", *(f"set:{tag}" for tag in tags), *map(_bracketed, addresses_of(node))]
    files = {f"hosts.d/{fqdn}": ",".join([*host, fqdn]) + "\n"}
    if script is not None:
        scripts = [secrets.nonce] if secrets.nonce else [mac.replace(":", "-") for mac in macs]
        files |= {f"http/boot/{name}.ipxe": script for name in scripts}
        lines = f"dhcp-boot=tag:ipxe,tag:{own},{SERVER}/boot/{scripts[0]}.ipxe,,{ADDRESS}\n"
        if bootenv is not None and bootenv.secure:
            lines += f"dhcp-option-force=tag:efi,tag:{own},{secureboot.OPTION},{secureboot.NAME.format(scripts[0])}\n"
            made = secureboot.config(fqdn, node.bootenv, bootenv.image, arguments)
            files |= {f"{secureboot.FOLDER}/{secureboot.NAME.format(name)}.cfg": made for name in scripts}
        files[f"boots.d/{fqdn}.conf"] = lines
    return BootDocument(files, fault)


def _script(
    fqdn: str, node: Node, bootenv: Bootenv | None, secrets: BootSecrets
) -> tuple[str | None, str | None, list[str]]:
    """The iPXE script of a node, else the fault of its values; and the arguments of the kernel."""
    assert bootenv is not None
    values = values_of(fqdn, node, bootenv)
    ours = [f"ocb.mode={bootenv.kind}", f"ocb.mac={values['mac']}", f"ocb.node={fqdn}", "ocb.server=${server}"]
    ours += ["ocb.root=${image}/${build}/root.squashfs", "ocb.root_sha256=${root_sha256}"]
    if secrets.token:
        ours.append(f"ocb.boot={secrets.token}")
    try:
        arguments = [*ours, *places.filled(bootenv.arguments, values).split()]
        trusted = {"arguments": " ".join(arguments), "server": SERVER}
        return places.filled(bootenv.script or bootenvs.SCRIPT, values, trusted), None, arguments
    except Invalid as wrong:
        return None, str(wrong), []


def values_of(fqdn: str, node: Node, bootenv: Bootenv) -> Mapping[str, str]:
    """The values of the names that a template may have."""
    macs, addresses = node.macs, addresses_of(node)
    return {
        "node": fqdn,
        "mac": macs[0] if macs else "",
        "macs": ",".join(macs),
        "address": addresses[0] if addresses else "",
        "network": min(node.networks, default=""),
        "deployment": node.deployment,
        "rack": node.rack or "",
        "bootenv": node.bootenv,
        "image": bootenv.image,
        "mode": str(bootenv.kind),
        **{f"labels.{name}": value for name, value in node.labels.items()},
        **{f"hints.{name}": value if isinstance(value, str) else "" for name, value in node.hints.items()},
    }


def _bracketed(address: str) -> str:
    """An address as dnsmasq reads it: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address

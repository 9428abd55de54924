"""The commands of a person who prepares a site for machines with power alone. Tests run them, and the demo shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from nodepool_ocb.testing.virtual import metalimages
from nodepool_ocb.testing.virtual.site import DEPLOYMENT, DOMAIN, NETWORK, ROOT, MetalSite

INSTALL: Final = "provisioner-os-install"
RULE: Final = "all"
NIC: Final = {"ethernets": {"all": {"match": {"name": "e*"}, "dhcp4": True}}}

#: Performs a command: ``ocb("node", "list")``.
Command = Callable[..., object]


def prepare(site: MetalSite, ocb: Command, boot: str = "both") -> None:
    """All commands until machines may come; ``boot``: the firmware that the installed disk is for (bios, uefi or both)."""
    for host in site.admins:  # before the roles of all nodes exist: it gets those of this test alone
        ocb("node", "create", host.fqdn, "--admin", "--address", host.address, "--host-key", host.host_key)
    ocb("barclamp", "import", str(ROOT / "etc/barclamps"))
    token = site.ask("token", "create", "machines", "--role", "register")["token"]
    ranges = ["ranges.dhcp=10.1.0.100-10.1.0.139", "ranges.host=10.1.0.20-10.1.0.60"]
    ocb("network", "create", NETWORK, "subnet=10.1.0.0/24", "router=10.1.0.1", f"domain={DOMAIN}", *ranges)
    for environment in ("discovery", "install"):
        ocb("bootenv", "set", environment, f"arguments={metalimages.ARGUMENTS}", f"image={metalimages.ENVIRONMENT}")
    for host in site.admins:
        ocb("network", "serve", NETWORK, host.fqdn)
        ocb("node", "bind", host.fqdn, "provisioner-dhcp-database")
        values = {
            "provisioner_ca": site.ca.read_text(),
            "provisioner_join_token": token,
            "provisioner_api": [site.url],
            "provisioner_keys": [site.key.with_suffix(".pub").read_text().strip()],
        }
        ocb("noderole", "set", f"provisioner-server@{host.fqdn}", *_assigned(values))
        ocb("node", "commit", host.fqdn, "--wait")
    ocb("deployment", "create", DEPLOYMENT)
    wish = {"install_image": metalimages.SYSTEM, "install_network": NIC, "install_layout": {"boot": boot}}
    ocb("deployment", "set", DEPLOYMENT, INSTALL, *_assigned(wish))
    ocb("deployment", "commit", DEPLOYMENT)


def await_images(site: MetalSite, seconds: float) -> None:
    """Return when each admin node has the newest build of each image. Raises AssertionError at the end of the time."""
    site.until(lambda: has_images(site), "each admin node has the images", seconds)


def has_images(site: MetalSite) -> bool:
    """Whether each admin node has a build of each image."""
    names = (metalimages.ENVIRONMENT, metalimages.SYSTEM)
    return all(host.read(f"http/images/{name}/newest") for host in site.admins for name in names)


def adopt_all(ocb: Command, *more: str, commit: bool = True) -> None:
    """A rule for each machine that waits, or comes, with further words; its serial number names its node.

    Without ``commit`` the noderoles stay PROPOSED: a rollout commits them, and with them the installation.
    """
    ocb(
        *("adoption", "set", RULE, f"name=n{{serial}}.{DOMAIN}", f"deployment={DEPLOYMENT}", f"network={NETWORK}"),
        *(f"roles={INSTALL}", f"commit={str(commit).lower()}", "allow_install=true", *more),
    )


def _assigned(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]

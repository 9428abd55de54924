"""Machines that ask to join: their facts, their registrations, and the rules that make nodes of them.

A machine sends an inventory, which is JSON of any content. The records keep the facts that this project knows, each bounded;
all other content is dropped. So a record stays small, and a hostile machine cannot fill ZooKeeper with its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from nodepool_ocb.model.ranges import Count, Login, Mac, Moment, Name, Rank
from nodepool_ocb.model.records import Record
from nodepool_ocb.model.tokens import Digest, TokenName

Fact = Annotated[str, Meta(max_length=128)]


class MachineDisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A disk as its machine describes it."""

    name: Fact = ""  # "sda"
    size: Count = 0  # bytes
    serial: Fact = ""
    wwn: Fact = ""
    model: Fact = ""
    rotational: bool = False
    removable: bool = False  # a stick or a card: named by serial, WWN or path alone


class MachineNic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A network card as its machine describes it."""

    name: Fact = ""  # "eth0"
    mac: Fact = ""
    speed: Count = 0  # bits per second; 0: no link
    driver: Fact = ""
    lldp_switch: Fact = ""  # the name of the switch at the other end
    lldp_port: Fact = ""  # and of its port


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts of a machine; empty or 0 where it does not know."""

    arch: Fact = ""
    cpus: Count = 0
    cpu_model: Fact = ""
    memory: Count = 0  # bytes
    vendor: Fact = ""
    product: Fact = ""
    serial: Fact = ""
    uuid: Fact = ""
    firmware: Fact = ""  # "bios" or "uefi"
    bios_version: Fact = ""
    bmc_address: Fact = ""
    boot_id: Fact = ""
    virtual: bool = False
    disks: tuple[MachineDisk, ...] = ()
    nics: tuple[MachineNic, ...] = ()


class Inventory(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<node>/inventory``: the facts of the machine of a node, as it said them last."""

    facts: MachineFacts = MachineFacts()
    at: Moment = 0.0
    by: str | None = None  # the author of this version


class MachineRegistration(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/registrations/<mac>``: a machine that asked to join. It is named by the first of its MACs."""

    macs: tuple[Mac, ...]
    digest: Digest  # SHA-256 of its secret
    former: Digest | None = None  # that of the boot before, of a machine that booted again while it waited
    facts: MachineFacts = MachineFacts()
    host_keys: tuple[str, ...] = ()
    address: str = ""  # that it registered from
    by: TokenName = "unknown"  # the name of the join token
    deployments: tuple[str, ...] = ()  # the limits of that token; with none it has no limits
    since: Moment = 0.0
    seen: Moment = 0.0  # its last request, some minutes exact
    node: str | None = None  # once it is adopted
    token: str | None = None  # the id of its own token
    rival: str = ""  # the address of another machine that claimed one of its MACs
    reason: str | None = None  # why it waits
    refused: str | None = None  # why a person refused it; it stays so until the registration is deleted
    refused_by: str = ""


class AdoptionRule(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``/ocb/adoption/<rule>``: the node that is made of each waiting machine with these facts."""

    name: str  # a template: "web-{n:03}.example.com"
    when: str = "*"  # a selector over the facts
    order: Rank = 0  # of the rules that fit, the lowest counts; then the first by name
    deployment: Name = "system"
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    racks: Mapping[str, str] = {}  # a switch, or SWITCH/PORT, to the rack of the node
    network: Name | None = None  # in which the node gets an address
    user: Login = "root"
    roles: tuple[Name, ...] = ()
    commission: tuple[Name, ...] = ()  # roles that must be ACTIVE before the roles above may run
    commit: bool = False  # without it, the noderoles are PROPOSED
    allow_install: bool = False  # the guard of the node: its disks may be erased

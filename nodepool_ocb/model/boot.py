"""Boot environments, and the records of the boot documents that servers have published.

A boot environment is the system that a machine boots from the network. The shipped ones exist in every cluster; a record of
the same name overrides one. A publication says that a server has activated the files of a node. It is written after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from nodepool_ocb.model.ranges import Count, Moment
from nodepool_ocb.model.records import Record


class BootenvKind(StrEnum):
    """The use of a boot environment."""

    DISCOVERY = "discovery"  # it reports the machine's parts, and waits
    INSTALL = "install"  # it writes an image to the machine's disk
    RESCUE = "rescue"  # it waits for a person
    LOCAL = "local"  # none of ours: the machine boots from its disk


class Bootenv(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``bootenvs/<name>``: a boot environment."""

    kind: BootenvKind
    image: str = ""  # a disk image of format pxe in nodepool.yaml; empty for kind local
    arguments: str = ""  # of the kernel: text with names in braces, which stand for values of the node
    script: str = ""  # a text in place of the shipped iPXE script; empty: that one
    secure: bool = False  # machines with UEFI boot by shim and GRUB, which are signed, in place of iPXE
    description: str = ""


HeardText = Annotated[str, Meta(max_length=64)]


class HeardServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server of DHCP that answered an admin node."""

    interface: HeardText  # of the admin node
    own: HeardText  # the address of that interface: "10.1.0.2/24"
    server: HeardText  # the address by which the server names itself
    offered: HeardText


class Publisher(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``publications/<noderole>``: a noderole that publishes files on its node."""

    directory: str = ""  # the id of the directory with the files; another one is empty
    address: str = ""  # of its HTTP server, such as http://10.1.0.2:8480
    log: str = ""  # the file on the node with the requests to that server
    addresses: tuple[str, ...] = ()  # of the node, when it looked for servers of DHCP
    heard: tuple[HeardServer, ...] = ()  # that answered then; ours do not answer
    more: bool = False  # other servers answered, too, or one sent a flood of offers
    listened: Moment = 0.0  # when it looked
    fault: str = ""  # why it could not look; ``heard`` is older then


class Publication(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``publications/<noderole>/<fqdn>``: the files of a node that this server has activated."""

    digest: str  # of the document of these files
    directory: str = ""  # the id of the directory that has them
    version: Count = 0  # of the node's record from which the document was made
    bootenv: str = ""
    at: Moment = 0.0


_IMAGE: Final = "environment"  # one image serves all: the kernel argument ocb.mode decides

#: The boot environments of a cluster in which no record overrides them.
SHIPPED: Final[Mapping[str, Bootenv]] = {
    "discovery": Bootenv(
        kind=BootenvKind.DISCOVERY, image=_IMAGE, arguments="panic=30", description="reports the parts of a machine"
    ),
    "install": Bootenv(
        kind=BootenvKind.INSTALL, image=_IMAGE, arguments="panic=30", description="writes an image to the disk"
    ),
    "rescue": Bootenv(kind=BootenvKind.RESCUE, image=_IMAGE, description="waits for a person, and changes no disk"),
    "local": Bootenv(kind=BootenvKind.LOCAL, description="boots from the disk of the machine"),
}

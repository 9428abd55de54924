"""The records of the installation of a machine: its progress, the token of the boot that it caused, and the pool that uses it.

Each step is written before the work of the next step begins. So another annealer continues at the step in the record. A pool
takes a machine by the transaction that writes its use, so a machine never has two users. That record stays after the use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from nodepool_ocb.model.ranges import Count, Moment, Name, Noderole, Percent, RunName, Timeout
from nodepool_ocb.model.records import Json, Record, WipeMethod
from nodepool_ocb.model.tokens import Digest

Word = Annotated[str, Meta(max_length=256)]
Text = Annotated[str, Meta(max_length=500)]
Nonce = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]


class InstallPurpose(StrEnum):
    """The reason why a machine boots one of our environments."""

    INSTALL = "install"  # it receives an image
    WIPE = "wipe"  # its disks lose their data, and the node is decommissioned
    RETIRE = "retire"  # the node is decommissioned, and the disks keep their data: it boots nothing
    RESCUE = "rescue"  # a person works on it


class DiskWipe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of the erasure of one disk."""

    disk: Text  # as the machine names it
    method: WipeMethod
    done: bool
    reason: Text | None = None  # of a failure
    at: Moment


class InstallStep(StrEnum):
    """The newest step of an installation that is done. A purpose takes some of them (``provisioning.installation.PATHS``)."""

    CHECKED = "checked"  # image and disk are chosen, and the node's boot environment is `install`
    PUBLISHED_INSTALL = "published_install"  # every living server has published that boot environment
    REBOOTING = "rebooting"  # the present boot of the machine is noted, so it may be ended
    IDENTIFIED = "identified"  # the installer has shown the token of its boot, and has its order
    WRITTEN = "written"  # the image is on the disk
    VERIFIED = "verified"  # the disk has the checksum of the image, and the node's boot environment is `local`
    WIPED = "wiped"  # all disks have lost their data, and the node's boot environment is `local`
    LEAVING = "leaving"  # a person has ended the rescue, and the node's boot environment is `local`
    PUBLISHED_LOCAL = "published_local"  # every living server has published that, so the machine may boot its disk
    ALIVE = "alive"  # the machine is back: another boot, and the pinned host key
    RETIRED = "retired"  # the node is decommissioned


#: The last step of each purpose.
ENDS: Final = frozenset({InstallStep.ALIVE, InstallStep.RETIRED})


class Installation(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/installation``: the newest installation of the machine, under way or over."""

    noderole: Noderole
    generation: Count  # of the noderole: an installation of another generation is over
    run: RunName  # that continues it
    epoch: Count  # of that run's claim; the installer writes it to the new disk
    purpose: InstallPurpose = InstallPurpose.INSTALL
    step: InstallStep = InstallStep.CHECKED
    since: Moment  # when the step was written
    started: Moment
    deadline: Moment  # for the next step
    limits: Mapping[str, Timeout] = {}  # step → seconds until the next one
    image: str = ""
    build: str = ""
    checksum: str = ""  # sha256:... of the image
    disk: str = ""  # the disk that loses its data, in words
    order: Mapping[str, Json] = {}  # for the installer, without the parts that belong to one boot
    reboot: str = ""  # the command that boots the machine
    power: str = ""  # the id of the request that switches it off and on; empty: it is told to boot
    boot_file: str = ""  # the file on the machine that changes with each boot
    boot_id: str = ""  # of the boot before; empty where the machine could not say it
    installer_boot_id: str = ""
    mac: str = ""  # of the card that the installer booted from
    host_key: str = ""  # "ssh-ed25519 AAAA...", of the new disk
    former_key: str = ""  # of the installer of an earlier attempt that failed, which may still run
    nonce: Nonce  # in the URL of the boot script
    token: str = ""  # the id of the token of the boot
    token_digest: Digest
    token_used: Moment | None = None
    wiped: tuple[DiskWipe, ...] = ()
    percent: Percent = 0  # of the image that is on the disk
    waits: str | None = None  # the obstacle that it waits for, in one sentence
    evidence: str | None = None  # the newest observation of the machine
    console: str | None = None  # the newest line of the serial console that shows a fault, in this step
    requests: str | None = None  # the newest request that it made while it boots, in one sentence
    reason: str | None = None  # why it failed; it is over then


class BootToken(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/boottoken``: the token for the boot script. It goes when the token is used, or the installation is over."""

    text: str  # ocb_ID_SECRET


class MachineUse(Record, frozen=True, kw_only=True, omit_defaults=True, tag=1):
    """``nodes/<fqdn>/use``: the newest use of the machine by a pool, under way or over."""

    cluster: Word  # this and the next four: the stamp of the launched node
    provider: Word
    pool: Word
    pool_node: Word
    key: Word
    label: Word
    image: Word  # a disk image of the builder
    since: Moment
    generation: (
        Count  # the installation of this use is of this generation of the noderole that installs, or a later one
    )
    roles: tuple[Name, ...] = ()  # the noderoles that the pool bound for this use
    cancelled: bool = False  # the pool itself ended the installation, so its failure says nothing about the machine
    returned: Moment | None = None  # the end of the use; None: it is under way

    @property
    def launch(self) -> str:
        """The identity of the launch, as ``engine.enrolling`` has it."""
        return f"{self.pool_node}-{self.key}"

"""The wish of a role that installs, from its attributes, and the order for the installer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.ranges import TIMEOUT_SECONDS
from nodepool_ocb.model.records import InstallRequest, Json, WipeMethod
from nodepool_ocb.provisioning import disks
from nodepool_ocb.provisioning.disks import DiskHints
from nodepool_ocb.provisioning.installation import LIMITS

PLACE: Final = "provisioner"  # of the attributes, in the JSON that a jig sees
FORMATS: Final = ("raw", "tar")  # of a disk image, the preferred one first
ORDER_BYTES: Final = 1 << 16
REBOOT: Final = "systemctl reboot || reboot"
LINKS: Final = "/dev/disk/"
AGAIN: Final = (
    "so says its inventory; change provisioner/disk, or store the inventory of a changed machine:"
    " nodepool-ocb node inventory"
)
BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
EVERY_DISK: Final = DiskHints()  # in a list of disks to wipe
USER_DATA: Final = "#cloud-config\nssh_deletekeys: false\n"  # the host key was pinned before the first boot


class DecommissionWish(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="kebab"
):
    """The attributes below ``provisioner/decommission/``."""

    method: WipeMethod = WipeMethod.OVERWRITE
    disks: tuple[DiskHints, ...] = ()  # none: all fixed disks


class Wish(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The attributes below ``provisioner/`` that an installation reads."""

    image: str = ""  # the name of a disk image in nodepool.yaml
    build: str = ""  # of that image; empty, or not READY any more: the newest one
    disk: DiskHints = DiskHints()
    wipe: tuple[DiskHints, ...] = ()  # further disks that lose their data; one without marks: all fixed disks
    wipe_method: WipeMethod = WipeMethod.SIGNATURES  # of these disks
    layout: Mapping[str, Json] = {}  # filesystem, swap_mib, lvm, raid1, boot
    network: Mapping[str, Json] = {}  # as netplan writes it, version 2
    user_data: str = USER_DATA  # of cloud-init
    authorized_keys: tuple[str, ...] = ()  # of root, beside those of the annealers
    reboot: str = REBOOT  # the command that boots the machine, from the network where it can say so
    boot_id: str = BOOT_ID  # the file that changes with each boot
    decommission: DecommissionWish = DecommissionWish()
    step_seconds: Mapping[str, float] = {}  # step → seconds until the next one


class ChosenImage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest READY build of an image, in one format."""

    image: str
    build: str
    format: str
    checksum: str
    size: int  # bytes

    @property
    def path(self) -> str:
        """Below the HTTP server of an admin node."""
        return f"images/{self.image}/{self.build}/disk.{self.format}"


def wish(attributes: Mapping[str, Json]) -> Wish:
    """The wish, perhaps without an image; raises Invalid with the names of the wrong attributes."""
    given = attributes.get(PLACE, {})
    if not isinstance(given, Mapping):
        raise Invalid(f"attribute {PLACE} must be a mapping; set {PLACE}/image to the name of a disk image")
    try:
        found = msgspec.convert(given, Wish)
    except msgspec.ValidationError as wrong:
        raise Invalid(f"attributes of {PLACE}: {wrong}") from None
    for step, seconds in found.step_seconds.items():
        if step not in LIMITS or not 0 < seconds <= TIMEOUT_SECONDS:
            raise Invalid(f"attribute {PLACE}/step-seconds: {step}={seconds:g}; the steps are {', '.join(LIMITS)}")
    return found


def requested(wish: Wish, request: InstallRequest | None) -> Wish:
    """The wish with the request of the node over it; raises Invalid if neither names an image."""
    if request is not None and request.image is not None:
        wish = replace(wish, image=request.image, build=request.build)
    if request is not None and request.authorized_keys:
        wish = replace(wish, authorized_keys=(*wish.authorized_keys, *request.authorized_keys))
    if request is not None and request.wipe is WipeMethod.NONE:
        wish = replace(wish, wipe=())
    elif request is not None and request.wipe is not None:
        wish = replace(wish, wipe=(EVERY_DISK,), wipe_method=request.wipe)
    if not wish.image:
        raise Invalid(f"attribute {PLACE}/image is not set; set it to the name of a disk image")
    return wish


def retiring(wish: Wish, request: InstallRequest | None) -> Wish:
    """The wish whose ``wipe`` and ``wipe_method`` are those of a decommissioning; none of both if the disks keep their data."""
    method = wish.decommission.method if request is None or request.wipe is None else request.wipe
    disks = () if method is WipeMethod.NONE else wish.decommission.disks or (EVERY_DISK,)
    return replace(wish, wipe=disks, wipe_method=method)


def newest(image: str, builds: Mapping[str, Build], wanted: str = "") -> ChosenImage:
    """The newest READY build with a format for disks, or the wanted one; raises Invalid without one. ``builds``: by id."""
    for id, build in sorted(builds.items(), key=lambda each: (each[0] == wanted, each[0]), reverse=True):
        there = [each for each in FORMATS if each in build.checksums]
        if build.state is not BuildState.READY or not there:
            continue
        sums = build.checksums[there[0]]
        sha256, size = sums.get("sha256"), sums.get("size")
        if isinstance(sha256, str) and isinstance(size, int):
            return ChosenImage(image=image, build=id, format=there[0], checksum=f"sha256:{sha256}", size=size)
    raise Invalid(
        f"image {image} has no READY build of format {' or '.join(FORMATS)}; see: nodepool-ocb image show {image}"
    )


def disk_of(wish: Wish, image: ChosenImage, inventory: Inventory | None) -> str:
    """The disk that loses its data, in words; raises the refusals of ``disks.chosen`` if the inventory names disks.

    A path below /dev/disk is judged by the installer: no inventory has the links.
    """
    known = disks.of_inventory(inventory.facts) if inventory is not None else None
    if known is None or (wish.disk.path or "").startswith(LINKS):
        return wish.disk.words
    try:
        found = disks.chosen(wish.disk, known, image.size, 2 if wish.layout.get("raid1") is True else 1)
    except Invalid as wrong:
        raise Invalid(f"{wrong}; {AGAIN}") from None
    return ", ".join(disk.words for disk in found)


def order(wish: Wish, image: ChosenImage, fqdn: str, instance: str, state_dir: str) -> dict[str, Json]:
    """The order without the parts of one boot. Raises Invalid if it is too large.

    ``instance``: the id of this installation for cloud-init; ``state_dir``: of the runner, on the new disk.
    """
    made: dict[str, Json] = {
        "hostname": fqdn,
        "image": [image.path],
        "checksum": image.checksum,
        "size": image.size,
        "format": image.format,
        "disk": msgspec.to_builtins(wish.disk),
        "wipe": msgspec.to_builtins(wish.wipe),
        "wipe_method": str(wish.wipe_method),
        "layout": dict(wish.layout),
        "network": dict(wish.network),
        "nocloud": {
            "meta-data": f"instance-id: {instance}\nlocal-hostname: {fqdn}\n",
            "user-data": wish.user_data,
            "network-config": msgspec.json.encode(wish.network).decode() if wish.network else "",
        },
        "authorized_keys": list(wish.authorized_keys),
        "state_dir": state_dir,
    }
    size = len(msgspec.json.encode(made))
    if size > ORDER_BYTES:
        raise Invalid(
            f"the order for the installer has {size} bytes; at most {ORDER_BYTES} are allowed: shorten user-data"
        )
    return made


def wipe_order(wish: Wish, fqdn: str) -> dict[str, Json]:
    """The order to erase disks."""
    wiped = {"wipe": msgspec.to_builtins(wish.wipe), "wipe_method": str(wish.wipe_method)}
    return {"action": "wipe", "hostname": fqdn, **wiped}


def rescue_order(wish: Wish, fqdn: str) -> dict[str, Json]:
    """The order to wait for a person."""
    return {"action": "rescue", "hostname": fqdn, "authorized_keys": list(wish.authorized_keys)}


def limits(wish: Wish) -> dict[str, float]:
    """The limits of the steps that the role names."""
    return {str(InstallStep(step)): seconds for step, seconds in wish.step_seconds.items()}

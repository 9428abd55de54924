"""The boot environments of a cluster: the shipped ones, and those of records. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.boot import SHIPPED, Bootenv, BootenvKind
from nodepool_ocb.model.ranges import is_name
from nodepool_ocb.provisioning import places

#: The iPXE script of each environment with an image. The script of the image sets ``build`` and ``root_sha256``.
SCRIPT: Final = """\
#!ipxe
# {node}: {bootenv}
set server {server}
set image ${server}/images/{image}
chain --autofree ${image}/newest.ipxe || goto failed
kernel ${image}/${build}/vmlinuz initrd=initrd initrd=site.cpio {arguments} || goto failed
initrd --name initrd ${image}/${build}/initrd || goto failed
initrd --name site.cpio ${server}/site.cpio || goto failed
boot || goto failed
:failed
echo {node}: the boot environment {bootenv} was not loaded from {server}; next attempt in 30 s
sleep 30
reboot
"""


def known(world: World) -> Mapping[str, Bootenv]:
    """Every boot environment by name: the shipped ones as they are, unless a record overrides them."""
    return {**SHIPPED, **{name: stored.record for name, stored in sorted(world.of(Bootenv).items())}}


def refuse_unknown(world: World, name: str) -> None:
    """Raises Invalid for a name of no boot environment, with the name that was meant."""
    names = known(world)
    if name not in names:
        meant = did_you_mean(name, names) or f"; known are {', '.join(sorted(names))}"
        raise Invalid(f"boot environment {name} does not exist{meant}; create it: nodepool-ocb bootenv create {name}")


def faults(name: str, bootenv: Bootenv) -> Iterator[str]:
    """Why this can be no boot environment: a sentence for each fault."""
    if not is_name(name):
        yield f"{name!r} can be no name: small letters, digits, '-', '_' and '.', at most 63"
    local = bootenv.kind is BootenvKind.LOCAL
    if local and (bootenv.image or bootenv.arguments or bootenv.script or bootenv.secure):
        yield "kind local boots the disk of the machine: it has no image, no arguments, no script and no secure=true"
    if bootenv.secure and bootenv.script:
        yield "script is for iPXE, which Secure Boot refuses; with secure=true there is no script"
    if not local and not is_name(bootenv.image):
        yield f"image {bootenv.image!r}: write the name of a disk image of format pxe, as nodepool.yaml has it"
    if not bootenv.description.isprintable() or len(bootenv.description) > 200:
        yield "description: write one line of at most 200 characters"
    yield from (f"arguments: {fault}" for fault in places.arguments_faults(bootenv.arguments))
    if bootenv.script:
        yield from (f"script: {fault}" for fault in places.script_faults(bootenv.script))

"""The first record of an installation, a decommissioning or a rescue: its purpose, its wish, its order and its token."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from nodepool_ocb.engine import claim, installing
from nodepool_ocb.model import tokens
from nodepool_ocb.model.installation import BootToken, Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.model.records import InstallRequest
from nodepool_ocb.provisioning import disks, losses, orders
from nodepool_ocb.provisioning.installation import advanced
from nodepool_ocb.provisioning.orders import ChosenImage, Wish


class Beginning(msgspec.Struct, frozen=True):
    """The purpose of a run, and its wish with the request of the node over it."""

    purpose: InstallPurpose
    wish: Wish


def beginning(jig: str, wish: Wish, request: InstallRequest | None) -> Beginning:
    """By the jig of the role. Raises Invalid for an installation without an image."""
    if jig == installing.RESCUE:
        return Beginning(InstallPurpose.RESCUE, wish)
    if jig in installing.RETIRING:
        retiring = orders.retiring(wish, request if jig == installing.DECOMMISSION else None)
        return Beginning(InstallPurpose.WIPE if retiring.wipe else InstallPurpose.RETIRE, retiring)
    return Beginning(InstallPurpose.INSTALL, orders.requested(wish, request if jig == installing.JIG else None))


def first(
    grant: claim.Grant, begun: Beginning, image: ChosenImage | None, state_dir: str, now: float
) -> tuple[Installation, BootToken]:
    """The first record and the token of its boot; raises Invalid for a wrong disk. ``image``: of an installation."""
    former, wish = installing.stored(grant.vertex.node), begun.wish
    text = tokens.text(secrets.token_hex(tokens.ID_BYTES), secrets.token_bytes(tokens.SECRET_BYTES))
    id, secret = tokens.split(text) or ("", "")
    made = Installation(
        purpose=begun.purpose,
        noderole=grant.vertex.name,
        generation=grant.record.generation,
        run=grant.run,
        epoch=grant.epoch,
        since=now,
        started=now,
        deadline=now,
        limits=orders.limits(wish),
        reboot=wish.reboot,
        boot_file=wish.boot_id,
        former_key=former.record.host_key if former is not None and former.record.reason else "",
        nonce=secrets.token_hex(16),
        token=id,
        token_digest=tokens.digest(secret),
        **_work(grant, begun, image, state_dir),
    )
    return advanced(made, InstallStep.CHECKED, now), BootToken(text=text)


def _work(grant: claim.Grant, begun: Beginning, image: ChosenImage | None, state_dir: str) -> dict[str, Any]:
    """The fields about disks and image."""
    view, wish = grant.vertex.node, begun.wish
    if image is None:
        known = losses.inventory(view)
        disk = ", ".join(disks.named(each, known, losses.EVERY) for each in wish.wipe)
        made = orders.rescue_order if begun.purpose is InstallPurpose.RESCUE else orders.wipe_order
        return {"disk": disk if begun.purpose is InstallPurpose.WIPE else "", "order": made(wish, grant.fqdn)}
    found = view.world.of(Inventory).get(grant.fqdn)
    instance = f"{grant.fqdn}-{grant.record.generation}-{grant.epoch}"
    return {
        "image": image.image,
        "build": image.build,
        "checksum": image.checksum,
        "disk": orders.disk_of(wish, image, found.record if found is not None else None),
        "order": orders.order(wish, image, grant.fqdn, instance, state_dir),
    }

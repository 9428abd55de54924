"""The disks of a machine that lose their data by an installation, for a person who decides about it. Pure."""

from __future__ import annotations

from typing import Final

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import NodeView
from nodepool_ocb.model.joining import Inventory
from nodepool_ocb.provisioning import disks
from nodepool_ocb.provisioning.disks import Disk
from nodepool_ocb.provisioning.orders import Wish

EVERY: Final = "each of its fixed disks"


def inventory(view: NodeView) -> tuple[Disk, ...] | None:
    """The disks in the inventory of the node; None without one, or without disks in it."""
    found = view.world.of(Inventory).get(view.name)
    known = disks.of_inventory(found.record.facts) if found is not None else None
    return known or None


def sentence(view: NodeView, wish: Wish) -> str:
    """The disks that lose their data, and the image, in one sentence."""
    known = inventory(view)
    wiped = "".join(f", and so does {disks.named(each, known, EVERY)}" for each in wish.wipe)
    how = f" ({wish.wipe_method})" if wish.wipe else ""
    last = installing.stored(view)
    installed = last is not None and last.record.image and last.record.disk
    before = f"; the last installation used {last.record.disk}" if last is not None and installed else ""
    return (
        f"{view.name}: {disks.named(wish.disk, known)} loses its data{wiped}{how};"
        f" it receives the newest build of image {wish.image}{before}{_user(view)}"
    )


def of_decommissioning(view: NodeView, wish: Wish) -> str:
    """The disks that lose their data when the node is decommissioned, in one sentence."""
    if not wish.wipe:
        return f"{view.name}: its disks keep their data; the node is decommissioned{_user(view)}"
    known = inventory(view)
    named = ", ".join(disks.named(each, known, EVERY) for each in wish.wipe)
    return f"{view.name}: {named} loses its data ({wish.wipe_method}); then the node is decommissioned{_user(view)}"


def _user(view: NodeView) -> str:
    """The pool that has lent the machine."""
    return f"; it is {installing.use_sentence(view)}" if installing.in_use(view) else ""

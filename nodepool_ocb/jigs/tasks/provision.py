"""Jig task-provision: a task of type provision, by the steps of an installation. Only a node with ``allow_install`` runs it."""

from __future__ import annotations

import threading
from typing import Final

from nodepool_ocb.jigs.install import InstallJig, boots_by
from nodepool_ocb.jigs.jig import Order, Outcome, Succeeded
from nodepool_ocb.jigs.tasks.task import task
from nodepool_ocb.provisioning import orders

#: The parameters that are those of a role that installs.
WISHED: Final = ("image", "disk", "layout", "network", "user-data")


class ProvisionTaskJig(InstallJig):
    name = "task-provision"

    def run(self, order: Order, stop: threading.Event) -> Outcome:  # noqa: ARG002
        asked = task(order)
        if asked.noop:
            return Succeeded(order.attributes, tail="would write an image to a disk of this machine")
        wish = {name: asked.parameters[name] for name in WISHED if name in asked.parameters}
        return boots_by({orders.PLACE: wish})

"""Jig task-erase: Fuel's erase_node, by the steps of a decommissioning. Only a node with ``allow_install`` runs it."""

from __future__ import annotations

import threading

from nodepool_ocb.jigs.install import DecommissionJig, boots_by
from nodepool_ocb.jigs.jig import Order, Outcome, Succeeded
from nodepool_ocb.jigs.tasks.task import task
from nodepool_ocb.provisioning import orders
from nodepool_ocb.tasks.parameters import DEFAULTS
from nodepool_ocb.tasks.tasklist import TaskKind


class EraseTaskJig(DecommissionJig):
    name = "task-erase"

    def run(self, order: Order, stop: threading.Event) -> Outcome:  # noqa: ARG002
        asked = task(order)
        if asked.noop:
            return Succeeded(order.attributes, tail="would erase the disks of this machine")
        method = {**DEFAULTS[TaskKind.ERASE_NODE], **asked.parameters}["method"]
        return boots_by({orders.PLACE: {"decommission": {"method": method}}})

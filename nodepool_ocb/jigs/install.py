"""Jigs install, decommission and rescue: the machine boots an environment of ours from the network.

A jig itself changes nothing. It reads the attributes, and says that the machine must boot. The annealer then takes the steps of
provisioning.installation, without a slot. After a take-over it continues at the step in the record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from nodepool_ocb.config import Settings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.jigs.jig import Boots, Failed, Order, Outcome
from nodepool_ocb.jigs.ssh import bootlogs, boots
from nodepool_ocb.jigs.ssh.bootlogs import LogPiece, LogPlace
from nodepool_ocb.jigs.ssh.boots import BootQuestion
from nodepool_ocb.jigs.ssh.pool import pool
from nodepool_ocb.model.records import Json, Node
from nodepool_ocb.provisioning import orders
from nodepool_ocb.provisioning.installation import BootLook


class InstallJig:
    name = "install"
    instant = False
    attaches = True

    def __init__(self, settings: Settings) -> None:
        self._pool = pool(settings.ssh)

    def configure(self, settings: Settings) -> None:
        self._pool.configure(settings.ssh)

    @property
    def state_dir(self) -> str:
        """The directory of the runner, on the machine."""
        return self._pool.settings.state_dir

    def look(self, fqdn: str, node: Node, question: BootQuestion) -> BootLook:
        """The present boot of the machine, as ``boots.look``."""
        return boots.look(self._pool, fqdn, node, question)

    def bootlog(self, fqdn: str, node: Node, place: LogPlace) -> LogPiece:
        """A piece of the log of an admin node, as ``bootlogs.read``."""
        return bootlogs.read(self._pool, fqdn, node, place)

    def run(self, order: Order, stop: threading.Event) -> Outcome:  # noqa: ARG002
        return boots_by(order.attributes)

    def cancel(self, order: Order) -> None: ...

    def close(self) -> None:
        self._pool.close()


class DecommissionJig(InstallJig):
    """The machine boots our environment, which erases its disks; then the node is out of service."""

    name = "decommission"


class RescueJig(InstallJig):
    """The machine boots our environment, in which a person works."""

    name = "rescue"


def boots_by(attributes: Mapping[str, Json]) -> Boots | Failed:
    """The boot that these attributes ask for."""
    try:
        return Boots(orders.wish(attributes))
    except Invalid as wrong:
        return Failed(str(wrong))

"""The builders of a host that are paused begin no build and no upload until that is over."""

from __future__ import annotations

import socket
import time

from nodepool_ocb.model import paths
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.records import Create, DaemonPause, Delete
from nodepool_ocb.store import daemons
from tests.builder.fleet_of_builders import BuilderFleet

PATH = paths.daemon_pause("builder", socket.gethostname())


def test_a_paused_builder_builds_nothing_and_says_so_and_goes_on_when_it_is_resumed(builders: BuilderFleet) -> None:
    builders.session.ensure(paths.daemon_pauses("builder"))
    record = DaemonPause(pause=Maintenance(by="ann", reason="disk", since=time.time()))
    builders.session.commit([Create(PATH, record)])
    image = builders.image("jammy")
    builders.builder(image).start()

    def says() -> list[str | None]:
        return [each.paused for each in daemons.read(builders.session, "builder").values() if each is not None]

    builders.until(lambda: says() == ["by ann: disk"], "it says so")
    assert not builders.builds("jammy")
    builders.session.commit([Delete(PATH, 0)])
    builders.until_ready("jammy")
    builders.until(lambda: says() == [None], "it says that it is over")

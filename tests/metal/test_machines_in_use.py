"""A machine that a pool uses, or used, as the rest of the product sees it. No server."""

from __future__ import annotations

from typing import Any

import pytest

from nodepool_ocb.engine import installing, readiness, renaming
from nodepool_ocb.engine.acting.reasons import Code
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.images.rules import BuildView, ImageView, UploadView
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.installation import MachineUse
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import InstallRequest, State
from nodepool_ocb.pool.launches.ready_images import ready_images
from nodepool_ocb.pool.views import NO_PROVIDER
from nodepool_ocb.provisioning import losses, orders
from nodepool_ocb.views import nodes
from tests.metal.test_choosing_machines import M0, NOW, OS, bind, used, world


def after_a_use(driver: str = "ipmi", **fields: Any) -> World:
    """A dead machine, which a pool used."""
    made = world(alive=False, reason="connect: timed out")
    made.put(Stored(MachinePower(driver=driver), 0), M0)
    made.put(Stored(used(**fields), 0), M0)
    bind(made, M0, OS, State.TODO)
    return made


def codes(made: World) -> set[Code]:
    return {reason.code for reason in readiness.why_not(made, made.nodes[M0].noderoles[OS], NOW)}


def test_a_machine_that_its_pool_switched_off_is_installed_although_it_is_not_alive() -> None:
    assert Code.NODE_NOT_ALIVE not in codes(after_a_use())
    assert Code.NODE_NOT_ALIVE in codes(after_a_use("manual"))
    without = after_a_use()
    without.drop(MachineUse, M0)
    assert Code.NODE_NOT_ALIVE in codes(without)


def test_a_returned_machine_that_is_off_is_no_cause_for_alarm() -> None:
    assert installing.resting(after_a_use(returned=1.0).nodes[M0])
    assert not installing.resting(after_a_use("manual", returned=1.0).nodes[M0])
    assert not installing.resting(after_a_use().nodes[M0])


def test_a_node_shows_the_pool_that_has_its_machine_or_had_it_last() -> None:
    view = after_a_use().nodes[M0]
    assert view.record is not None
    shown = nodes.document(view, view.record, NOW)
    assert shown.use == "node 1 of pool rack/main since 1970-01-01T00:00:01Z, with label small"
    view = after_a_use(returned=2.0).nodes[M0]
    assert installing.use_sentence(view) == "returned to pool rack/main 1970-01-01T00:00:02Z, after label small"


def test_a_machine_in_use_is_not_renamed() -> None:
    made = after_a_use()
    with pytest.raises(Conflict, match=r"m0\.example\.com is node 1 of pool rack/main since"):
        renaming.rename(made, M0, "m9.example.com", [], {}, admin_domain=None)


def test_a_person_who_erases_a_machine_in_use_reads_that_a_pool_has_it() -> None:
    wish = orders.Wish(image="debian")
    said = losses.sentence(after_a_use().nodes[M0], wish)
    assert said.endswith("image debian; it is node 1 of pool rack/main since 1970-01-01T00:00:01Z, with label small")
    assert losses.sentence(after_a_use(returned=2.0).nodes[M0], wish).endswith("image debian")


def test_the_request_for_an_installation_names_the_build_and_adds_keys() -> None:
    wish = orders.wish({"provisioner": {"image": "other", "authorized-keys": ["a"]}})
    found = orders.requested(wish, InstallRequest(image="debian", build="0000000001", authorized_keys=("b",)))
    assert (found.image, found.build, found.authorized_keys) == ("debian", "0000000001", ("a", "b"))
    builds = {f"{number:010}": build() for number in (1, 2)}
    assert orders.newest("debian", builds, found.build).build == "0000000001"
    assert orders.newest("debian", builds, "0000000009").build == "0000000002", "it is gone"


def build(**fields: Any) -> Build:
    known: dict[str, Any] = {"state": BuildState.READY, "checksums": {"raw": {"sha256": "a" * 64, "size": 1}}}
    return Build(builder="b", builder_id="b", filename="f", state_time=0.0, **(known | fields))


def test_machines_of_the_fleet_get_the_newest_build_that_any_server_has() -> None:
    ready = Upload(state=UploadState.READY, state_time=0.0, format="raw", external_id="x")
    there = (UploadView("b", "admin1", "0000000001", ready, 0, False),)
    views = [
        BuildView("0000000001", build(), 0, there),
        BuildView("0000000002", build(), 0),
        BuildView("0000000003", build(checksums={"pxe": {}}), 0, there),
    ]
    found = ready_images({"debian": ImageView("debian", tuple(views))})
    assert found[NO_PROVIDER, "debian"].path == "/nodepool/image/debian/builds/0000000001"

"""Jig task-provision: the wish of a task of type provision, and a run of tasks that changes nothing."""

from __future__ import annotations

import threading
from typing import Any

from nodepool_ocb.config import Settings
from nodepool_ocb.engine import installing
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.jigs.jig import Boots, Failed, Order, Succeeded
from nodepool_ocb.jigs.tasks.provision import ProvisionTaskJig
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.records import InstallRequest, Node, Role, State
from nodepool_ocb_annealer.runs.beginnings import beginning
from tests.engine.worlds import put, world

N = "n1.example.com"


def outcome(parameters: dict[str, Any], **attributes: Any) -> Any:
    role = Role(barclamp="t", jig="task-provision", parameters=parameters)
    order = Order(
        node=N, role="provision", definition=role, attributes=attributes, epoch=1, generation=1, record=Node(), run="r",
        timeout_seconds=5.0,
    )  # fmt: skip
    jig = ProvisionTaskJig(Settings())
    try:
        return jig.run(order, threading.Event())
    finally:
        jig.close()


def test_a_task_that_provisions_takes_the_steps_of_an_installation_with_its_own_image() -> None:
    found = outcome({"image": "debian", "disk": {"serial": "S1"}, "timeout": 3600})
    assert isinstance(found, Boots)
    begun = beginning("task-provision", found.wish, InstallRequest(image="of another command"))
    assert (begun.purpose, begun.wish.image, begun.wish.disk.serial) == (InstallPurpose.INSTALL, "debian", "S1")
    assert begun.wish.wipe == (), "no other disk loses its data"


def test_a_run_that_changes_nothing_installs_nothing_and_a_wrong_disk_fails() -> None:
    assert isinstance(outcome({"image": "debian"}, tasks={"noop": True, "run": "1"}), Succeeded)
    assert isinstance(outcome({"image": "debian", "disk": {"serail": "S1"}}), Failed)


def test_it_needs_leave_and_goes_on_while_its_machine_is_away() -> None:
    made = world()
    made.put(Stored(Role(barclamp="t", jig="task-provision"), 1), "t")
    vertex = put(made, f"t@{N}", State.TRANSITION)
    assert installing.erases(vertex), "so the node needs allow_install"
    assert not installing.needs_no_system(vertex)
    under_way = Installation(
        noderole=vertex.name, generation=1, run="r", epoch=1, since=0.0, started=0.0, deadline=900.0, nonce="0" * 32,
        token_digest="0" * 64, step=InstallStep.IDENTIFIED,
    )  # fmt: skip
    made.put(Stored(under_way, 0), N)
    assert installing.needs_no_system(vertex)

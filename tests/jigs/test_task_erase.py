"""Jig task-erase: the wish of a task of type erase_node, and a run of tasks that changes nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodepool_ocb.config import Settings
from nodepool_ocb.engine import installing
from nodepool_ocb.jigs.jig import Boots, Failed, Order, Succeeded
from nodepool_ocb.jigs.tasks.erase import EraseTaskJig
from nodepool_ocb.model.installation import InstallPurpose
from nodepool_ocb.model.records import InstallRequest, Node, Role, WipeMethod
from nodepool_ocb_annealer.runs.beginnings import beginning


def outcome(parameters: dict[str, Any], **attributes: Any) -> Any:
    role = Role(barclamp="t", jig="task-erase", parameters=parameters)
    order = Order(
        node="n1.example.com", role="erase", definition=role, attributes=attributes, epoch=1, generation=1,
        record=Node(), run="r", timeout_seconds=5.0,
    )  # fmt: skip
    jig = EraseTaskJig(Settings())
    try:
        return jig.run(order, threading.Event())
    finally:
        jig.close()


@pytest.mark.parametrize(("parameters", "method"), [({}, "overwrite"), ({"method": "discard"}, "discard")])
def test_a_task_that_erases_takes_the_steps_of_a_decommissioning(parameters: dict[str, Any], method: str) -> None:
    found = outcome(parameters)
    assert isinstance(found, Boots)
    begun = beginning("task-erase", found.wish, InstallRequest(wipe=WipeMethod.NONE))
    assert (begun.purpose, begun.wish.wipe_method) == (InstallPurpose.WIPE, method), "the task's own method counts"
    assert "task-erase" in installing.ERASING, "so the node needs allow_install"


def test_a_run_that_changes_nothing_erases_nothing_and_a_wrong_method_fails() -> None:
    assert isinstance(outcome({}, tasks={"noop": True, "run": "1"}), Succeeded)
    assert isinstance(outcome({"method": "magic"}), Failed)

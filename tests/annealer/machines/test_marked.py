"""A machine that answers every probe, and is marked as not alive."""

from __future__ import annotations

from typing import Any

from nodepool_ocb.engine import liveness
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.records import State
from tests.journeys.fleet import Fleet
from tests.stories.test_annealer import package

INSTALLS = """
from nodepool_ocb.catalogue.code import Role

class Watched(Role):
    def on_active(self, hooked):
        hooked.set_node.update(alive=False, reason="installs", bootenv="installer")
"""


def say(fleet: Fleet, marker: Marker, **word: Any) -> None:
    (machine,) = fleet.nodes
    fleet.write(
        lambda world: liveness.changed(
            world, world.nodes[machine], fleet.session.now(), "somebody", marker=marker, **word
        )
    )


def test_a_marked_machine_is_left_alone_though_it_answers_until_the_time_of_the_mark_is_up(fleet: Fleet) -> None:
    """Two machines would tell no more: that it is asked shows in the version of its record, and in its runs."""
    fleet.add_role("first", fleet.work(0.0))
    (machine,) = fleet.nodes
    fleet.annealer().begin()
    noderole = fleet.bind("first", machine)
    fleet.until_state(noderole, State.ACTIVE)
    say(fleet, Marker.HOOK, alive=False, reason="installs", hold_seconds=3.0)
    until = fleet.session.now() + 3.0
    assert fleet.state(noderole) is State.TODO
    fleet.until(lambda: fleet.node(machine).alive, "it is asked when the time is up")
    assert fleet.session.now() >= until - 0.5
    fleet.until_state(noderole, State.ACTIVE)
    assert fleet.starts()[noderole] == 2
    assert not fleet.faults()


def test_an_installation_whose_hook_marks_the_machine_ends_with_the_word_of_the_machine(fleet: Fleet) -> None:
    """It answers all the while, as it may until it reboots; what was done on it before is done anew, once."""
    fleet.add_role("first", fleet.work(0.0))
    fleet.add_role("watched", fleet.work(0.0, flags=("destructive",), hooks=("on_active",)))
    first = fleet.bind("first", fleet.nodes[0])
    fleet.annealer().begin(PYTHONPATH=str(package(fleet.folder / "site", INSTALLS)))
    fleet.until_state(first, State.ACTIVE)
    install = fleet.bind("watched", fleet.nodes[0])
    fleet.until(lambda: fleet.node(fleet.nodes[0]).mark, "the hook has marked it")
    mark = fleet.node(fleet.nodes[0]).mark
    assert mark is not None
    assert (mark.kind, mark.by, mark.reason) == (Marker.HOOK, "watched", "installs")
    assert fleet.state(first) is State.TODO
    say(fleet, Marker.MACHINE, alive=True)
    fleet.until_all_active()
    assert fleet.starts() == {first: 2, install: 1}
    assert not fleet.faults()

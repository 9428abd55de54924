"""``node reinstall``: the disks that lose their data, the guard, and the noderoles that run again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import liveness
from nodepool_ocb.engine.noderole import Event, apply
from nodepool_ocb.engine.reinstalling import requested
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.aliveness import Marker
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts
from nodepool_ocb.model.records import InstallRequest, Node, NodeRole, Role, Set, State, WipeMethod
from nodepool_ocb.operations.installations.reinstalling import NodeReinstall
from nodepool_ocb.operations.noderoles.destroying import NoderoleRedeploy
from nodepool_ocb.operations.reads.agreement import Agreed, Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.rollouts import ReadRolloutDeployments
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import losses, orders
from nodepool_ocb.provisioning.disks import DiskHints
from nodepool_ocb.provisioning.installation import failed
from tests.engine.worlds import put, world
from tests.operations.test_decisions import decided, situation

OS = Role(
    barclamp="p", jig="install", flags=("destructive",),
    template={"provisioner": {"image": "debian", "disk": {"serial": "S1"}, "wipe": [{"serial": "S2"}]}},
)  # fmt: skip


def installed(**fields: Any) -> World:
    """A node with a noderole that installs it, which was done."""
    made = world()
    made.put(Stored(OS, 0), "os")
    put(made, "os@n", State.ACTIVE)
    vertex = made.vertex("os@n")
    assert vertex is not None
    made.put_noderole("n", "os", vertex.record.amended(once="done", generation=4), 7)
    made.put_node("n", Node(**{"alive": True, "allow_install": True, **fields}), 5)
    return made


def reinstalled(made: World, dry_run: bool = False, **wish: Any) -> tuple[Any, list[Any], list[str]]:
    """The answer, the changes, and the questions."""
    steps = NodeReinstall(nodes=("n",), **wish).decide(situation(dry_run=dry_run))
    changes: list[Any] = []
    asked: list[str] = []
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            answer = None
            if isinstance(step, ReadWorld):
                answer = made
            elif isinstance(step, ReadBlobs):
                answer = {}
            elif isinstance(step, Agreement):
                asked.append(f"{step.text}: {'; '.join(step.details)}")
                answer = Agreed(step.covers, asked=True)
            else:
                changes += list(step)  # type: ignore[arg-type]
    except StopIteration as end:
        return end.value, changes, asked


RECEIVES = "it receives the newest build of image debian"
LOSS = f"n: serial=S1 loses its data, and so does serial=S2 (signatures); {RECEIVES}"


def test_a_reinstallation_asks_with_the_disks_that_lose_their_data_and_redeploys_the_role() -> None:
    answer, changes, asked = reinstalled(installed())
    assert asked == [f"erase disks of n: {LOSS}"]
    written = [change.data for change in changes if isinstance(change, Set) and isinstance(change.data, NodeRole)]
    assert [(record.state, record.once, record.generation) for record in written] == [(State.TODO, None, 5)]
    assert answer.nodes == ("n",)


def test_a_redeployment_of_the_noderole_names_the_disks_of_the_newest_wish_of_the_node() -> None:
    made = installed(install=InstallRequest(wipe=WipeMethod.OVERWRITE))
    answers = {ReadWorld: made, ReadBlobs: {}, Agreement: Agreed(frozenset(), asked=True), ReadRolloutDeployments: []}
    found = decided(NoderoleRedeploy(noderoles=("os@n",)), answers)
    (asked,) = (each for each in found.asked if isinstance(each, Agreement))
    assert asked.text == "run again os@n, which is destructive and was done"
    assert asked.details == (f"n: serial=S1 loses its data, and so does {losses.EVERY} (overwrite); {RECEIVES}",)


def test_a_dry_run_names_the_disks_and_asks_nothing() -> None:
    answer, _, asked = reinstalled(installed(), dry_run=True)
    assert (answer.explanations, asked) == ((LOSS,), [])


def test_a_wish_for_an_image_and_all_disks_is_kept_by_the_node_and_ends_with_the_next_request() -> None:
    made = installed()
    disks = (MachineDisk(name="sda", size=32 << 30, serial="S1"), MachineDisk(name="sdb", size=1 << 40, serial="S2"))
    made.put(Stored(Inventory(facts=MachineFacts(disks=disks)), 0), "n")
    answer, changes, _ = reinstalled(made, image="fedora", wipe=WipeMethod.DISCARD)
    assert answer.explanations == (
        "n: /dev/sda (serial S1, 32.0 GiB) loses its data, and so does /dev/sda (serial S1, 32.0 GiB), /dev/sdb (serial S2,"
        " 1024.0 GiB) (discard); it receives the newest build of image fedora",
    )
    [node] = [change.data for change in changes if isinstance(change, Set) and isinstance(change.data, Node)]
    assert node.install == InstallRequest(image="fedora", wipe=WipeMethod.DISCARD)
    wish = orders.requested(orders.wish({}), node.install)
    assert (wish.image, wish.wipe, wish.wipe_method) == ("fedora", (DiskHints(),), "discard")
    again = installed(install=node.install)
    _, changes, _ = reinstalled(again)
    nodes = [change.data for change in changes if isinstance(change, Set) and isinstance(change.data, Node)]
    assert [each.install for each in nodes] == [None]


@pytest.mark.parametrize("over", [True, False])
def test_the_wish_of_a_command_ends_with_the_work_that_fulfils_it(over: bool) -> None:
    view = installed(install=InstallRequest(image="fedora", wipe=WipeMethod.DISCARD)).nodes["n"]
    after = liveness.installed(view, "ssh-ed25519 AAAA", (), 9.0) if over else liveness.retired(view, 9.0, erased=True)
    assert after.install is None, "no later redeployment has it"
    assert liveness.rescued(view, 9.0).install is not None, "it is another one's"


def test_a_request_of_a_daemon_commits_a_proposed_installation_and_refuses_one_under_way() -> None:
    made = installed()
    vertex = made.vertex("os@n")
    assert vertex is not None
    made.put_noderole("n", "os", vertex.record.amended(state=State.PROPOSED, once=None), 8)
    changes = requested(made.nodes["n"], InstallRequest(image="x"), 9.0, "launcher")
    moved = [change.data for change in changes if isinstance(change, Set) and isinstance(change.data, NodeRole)]
    assert [record.state for record in moved] == [State.TODO]
    made.put_noderole("n", "os", replace(vertex.record, state=State.TRANSITION, run="r"), 9)
    with pytest.raises(Conflict, match="os@n is TRANSITION"):
        requested(made.nodes["n"], None, 9.0)


def test_a_node_without_leave_and_one_without_such_a_role_are_refused() -> None:
    with pytest.raises(Conflict, match="nodepool-ocb node set n allow_install=true"):
        reinstalled(installed(allow_install=False))
    made = installed()
    made.drop_noderole("n", "os")
    with pytest.raises(Conflict, match="must have one noderole that installs it, and has none"):
        reinstalled(made)


def test_an_installation_that_failed_is_not_started_again_by_the_death_of_its_machine() -> None:
    made = installed()
    vertex = made.vertex("os@n")
    assert vertex is not None
    made.put_noderole("n", "os", vertex.record.amended(state=State.ERROR, once=None, reason="step written: no disk"), 8)
    record = Installation(
        noderole="os@n", generation=4, run="r", epoch=1, since=0.0, started=0.0, deadline=0.0, nonce="0" * 32,
        token_digest="0" * 64, step=InstallStep.IDENTIFIED, token_used=1.0,
    )  # fmt: skip
    made.put(Stored(failed(record, "step written: no disk"), 0), "n")
    died = liveness.died(made.nodes["n"], 9.0, "connect: no route")
    assert [change.path for change in died if isinstance(change, Set)] == ["/ocb/nodes/n"]


def test_the_words_of_a_machine_and_of_hooks_are_ignored_while_it_is_installed_and_those_of_people_count() -> None:
    made = installed()
    vertex = made.vertex("os@n")
    assert vertex is not None
    begun = apply({vertex: Event.REDEPLOY}, 1.0)[vertex]
    made.put_noderole("n", "os", begun.amended(state=State.TRANSITION, once="started", run="r"), 8)
    record = Installation(
        noderole="os@n", generation=5, run="r", epoch=1, since=0.0, started=0.0, deadline=0.0, nonce="0" * 32,
        token_digest="0" * 64,
    )  # fmt: skip
    made.put(Stored(record, 0), "n")
    for marker in (Marker.MACHINE, Marker.HOOK):
        assert liveness.changed(made, made.nodes["n"], 9.0, "n", marker=marker, alive=False) == []
    said = liveness.changed(made, made.nodes["n"], 9.0, "ann", alive=False, reason="burns")
    assert said

"""``node decommission``, ``node recommission`` and ``node rescue``: guards, bindings, repetitions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import installing, liveness, readiness
from nodepool_ocb.engine.acting.reasons import Code
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, Denied
from nodepool_ocb.model import tokens
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep, MachineUse
from nodepool_ocb.model.joining import Inventory, MachineDisk, MachineFacts
from nodepool_ocb.model.records import Daemon, InstallRequest, Node, NodeRole, Role, State, WipeMethod
from nodepool_ocb.operations.installations.decommissioning import NodeDecommission, NodeRecommission
from nodepool_ocb.operations.installations.rescuing import NodeRescue
from nodepool_ocb.operations.joining.reporting import NodeInventory
from nodepool_ocb.operations.limits.narrowing import Limits, names_within
from nodepool_ocb.operations.operation import Call, Operation, Situation
from nodepool_ocb.operations.reads.agreement import Agreed, Agreement
from nodepool_ocb.operations.reads.noderoles import ReadBlobs
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.operations.rollouts import selecting
from nodepool_ocb.operations.selection import MatchNodes
from nodepool_ocb_annealer.machines.judging import probed
from tests.engine.worlds import put, world
from tests.operations.test_decisions import situation

N = "n"


def there(**fields: Any) -> World:
    """A node with one role, and the roles that decommission and rescue it, which are not bound."""
    made = world()
    for role, jig in (("gone", "decommission"), ("rescue", "rescue")):
        made.put(Stored(Role(barclamp="p", jig=jig, flags=("destructive",)), 0), role)
    daemon = Daemon(host="h", pid=1, version="1", started=0.0, jigs=("decommission", "rescue", "noop"))
    made.put(Stored(daemon, 0), "annealer", "a")
    put(made, f"app@{N}", State.ACTIVE)
    made.put_node(N, Node(**{"alive": True, "allow_install": True, **fields}), 5)
    return made


def performed(made: World, operation: Operation[Any], dry_run: bool = False) -> list[str]:
    """The world follows the changes; gives the questions."""
    steps = operation.decide(situation(dry_run=dry_run))
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
    except StopIteration:
        return asked


def record(made: World, role: str) -> NodeRole:
    return made.nodes[N].noderoles[role].record


def node(made: World) -> Node:
    found = made.nodes[N].record
    assert found is not None
    return found


def test_a_decommissioning_binds_the_role_names_the_disks_and_a_repetition_adds_nothing() -> None:
    made = there()
    facts = MachineFacts(disks=(MachineDisk(name="sda", size=32 << 30, serial="S1"),))
    made.put(Stored(Inventory(facts=facts), 0), N)
    asked = performed(made, NodeDecommission(nodes=(N,), wipe=WipeMethod.DISCARD))
    loss = "n: /dev/sda (serial S1, 32.0 GiB) loses its data (discard); then the node is decommissioned"
    assert asked == [f"decommission n: {loss}"]
    assert (record(made, "gone").state, node(made).install) == (State.TODO, InstallRequest(wipe=WipeMethod.DISCARD))
    made.put_noderole(N, "gone", replace(record(made, "gone"), state=State.TRANSITION, run="r"), 9)
    under_way = Installation(
        purpose=InstallPurpose.WIPE, noderole=f"gone@{N}", generation=record(made, "gone").generation, run="r", epoch=1,
        since=0.0, started=0.0, deadline=0.0, nonce="0" * 32, token_digest="0" * 64,
    )  # fmt: skip
    made.put(Stored(under_way, 0), N)
    before = record(made, "gone")
    performed(made, NodeDecommission(nodes=(N,), wipe=WipeMethod.DISCARD))
    assert record(made, "gone") == before


def test_without_leave_disks_are_not_erased_and_a_machine_that_keeps_them_needs_none() -> None:
    made = there(allow_install=False)
    with pytest.raises(Conflict, match="node set n allow_install=true"):
        performed(made, NodeDecommission(nodes=(N,)))
    assert "gone" not in made.nodes[N].noderoles, "nothing is bound"
    assert performed(made, NodeDecommission(nodes=(N,), wipe=WipeMethod.NONE)) == [
        "decommission n: n: its disks keep their data; the node is decommissioned"
    ]
    codes = {each.code for each in readiness.why_not(made, made.nodes[N].noderoles["gone"], 9.0)}
    assert Code.INSTALL_NOT_ALLOWED not in codes
    made.put_node(N, replace(node(made), install=None), 9)
    codes = {each.code for each in readiness.why_not(made, made.nodes[N].noderoles["gone"], 9.0)}
    assert Code.INSTALL_NOT_ALLOWED in codes, "the method of the role erases"


def test_nothing_runs_on_a_decommissioned_node_until_it_is_recommissioned() -> None:
    made = there()
    made.put_node(N, liveness.retired(made.nodes[N], 7.0, erased=True), 6)
    app = made.nodes[N].noderoles["app"]
    made.put_noderole(N, "app", replace(app.record, state=State.TODO), 8)
    reasons = readiness.why_not(made, made.nodes[N].noderoles["app"], 9.0)
    assert (reasons[0].code, reasons[0].advice) == (Code.NODE_DECOMMISSIONED, "nodepool-ocb node recommission n")
    assert installing.resting(made.nodes[N]), "it is no cause for alarm"
    with pytest.raises(Conflict, match="was decommissioned"):
        liveness.changed(made, made.nodes[N], 9.0, "ann", alive=True)
    with pytest.raises(Conflict, match="was decommissioned"):
        performed(made, NodeRescue(nodes=(N,)))
    assert performed(made, NodeDecommission(nodes=(N,))) == [], "it is done"
    performed(made, NodeRecommission(nodes=(N,)))
    assert (node(made).decommissioned, node(made).alive) == (None, False)


def test_a_decommissioned_node_is_not_probed_and_is_in_no_group_of_a_rollout() -> None:
    def grouped(made: World) -> list[str]:
        steps = selecting.inventory(made, "system", None)
        assert isinstance(next(steps), MatchNodes)
        with pytest.raises(StopIteration) as end:
            steps.send(None)
        return list(end.value.value)

    made = there(addresses=("192.0.2.1",))
    assert (probed(made.nodes[N], 9.0), grouped(made)) == (True, [N])
    made.put_node(N, liveness.retired(made.nodes[N], 7.0, erased=False), 6)
    assert (probed(made.nodes[N], 9.0), grouped(made)) == (False, [])


def test_a_rescue_is_ended_by_a_person_once_the_machine_is_in_the_environment() -> None:
    made = there()
    performed(made, NodeRescue(nodes=(N,)))
    assert record(made, "rescue").state is State.TODO
    with pytest.raises(Conflict, match="no rescue of n is under way"):
        performed(made, NodeRescue(nodes=(N,), end=True))
    made.put_noderole(N, "rescue", replace(record(made, "rescue"), state=State.TRANSITION, run="r"), 9)
    begun = Installation(
        purpose=InstallPurpose.RESCUE, noderole=f"rescue@{N}", generation=record(made, "rescue").generation, run="r", epoch=1,
        since=0.0, started=0.0, deadline=0.0, nonce="0" * 32, token_digest="0" * 64,
    )  # fmt: skip
    made.put(Stored(begun, 0), N)
    with pytest.raises(Conflict, match="on its way into the rescue environment"):
        performed(made, NodeRescue(nodes=(N,), end=True))
    made.put(Stored(replace(begun, step=InstallStep.IDENTIFIED), 1), N)
    made.put_node(N, replace(node(made), bootenv="rescue"), 9)
    for _ in range(2):
        performed(made, NodeRescue(nodes=(N,), end=True))
        assert node(made).bootenv == "local"
        assert made.of(Installation)[N].record.step is InstallStep.LEAVING


def boot(step: InstallStep, purpose: InstallPurpose = InstallPurpose.INSTALL, **fields: Any) -> Installation:
    known: dict[str, Any] = {"generation": 1, "since": 60.0, "started": 50.0, "deadline": 90.0}
    return Installation(
        noderole=f"os@{N}", run="r", epoch=1, nonce="0" * 32, token_digest="0" * 64, step=step, purpose=purpose,
        **(known | fields),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("installation", "state", "alive", "begins"),
    [
        (boot(InstallStep.CHECKED), State.TRANSITION, True, 50.0),  # under way: its disks are being written
        (boot(InstallStep.CHECKED, InstallPurpose.RESCUE), State.TRANSITION, True, 0.0),  # it keeps its system
        (boot(InstallStep.CHECKED, reason="no image"), State.ERROR, True, 0.0),  # it failed, and the former system runs
        (boot(InstallStep.CHECKED, reason="no image"), State.ERROR, False, 50.0),
        (boot(InstallStep.RETIRED, InstallPurpose.WIPE), State.ACTIVE, True, 60.0),  # also after a recommissioning
        (boot(InstallStep.RETIRED, InstallPurpose.RETIRE), State.ACTIVE, False, 0.0),  # recommissioned, and not erased
    ],
)
def test_a_token_of_the_machine_from_before_it_lost_its_disks_does_not_count(
    installation: Installation, state: State, alive: bool, begins: float
) -> None:
    made = there(alive=alive)
    put(made, f"os@{N}", state)
    made.put(Stored(installation, 0), N)
    assert installing.tokens_from(made.nodes[N]) == begins
    limits = Limits((), f"name:{N}", life=0, made=begins)
    assert names_within(made, limits) == {N, *(vertex.name for vertex in made.nodes[N].noderoles.values())}
    assert names_within(made, replace(limits, made=begins - 0.5)) == set()
    assert names_within(made, replace(limits, life=None, made=0.0)) != set(), "a token of a person is no machine's own"


def test_a_token_of_the_machine_does_not_count_when_its_node_was_decommissioned() -> None:
    made = there(decommissioned=70.0)
    assert installing.tokens_from(made.nodes[N]) == 70.0


def test_a_machine_that_kept_its_disks_has_its_key_and_its_token_again_when_it_is_recommissioned() -> None:
    made = there(host_keys=("ssh-ed25519 A",))
    put(made, f"os@{N}", State.ACTIVE)
    made.put(Stored(boot(InstallStep.RETIRED, InstallPurpose.RETIRE), 0), N)
    own = Limits((), f"name:{N}", life=0, made=10.0)
    assert N in names_within(made, own)
    made.put_node(N, liveness.retired(made.nodes[N], 60.0, erased=False), 6)
    assert names_within(made, own) == set(), "the machine may be given away"
    performed(made, NodeRecommission(nodes=(N,)))
    assert (node(made).host_keys, node(made).alive) == (("ssh-ed25519 A",), False)
    assert N in names_within(made, own), "it says itself that it is alive"
    used = MachineUse(
        cluster="c", provider="r", pool="m", pool_node="1", key="k", label="l", image="i", since=11.0, generation=1,
        returned=12.0,
    )  # fmt: skip
    made.put(Stored(used, 0), N)
    assert names_within(made, own) == set(), "a user of a pool may have a copy"


def test_the_installer_of_a_pools_machine_reports_its_facts_and_its_user_does_not() -> None:
    made = there()
    put(made, f"os@{N}", State.TRANSITION)
    used = MachineUse(
        cluster="c", provider="r", pool="m", pool_node="1", key="k", label="l", image="i", since=1.0, generation=1
    )
    made.put(Stored(used, 0), N)
    made.put(Stored(boot(InstallStep.IDENTIFIED), 0), N)
    report = NodeInventory(node=N, inventory={"memory": 5})
    own = replace(situation(), call=Call(login=tokens.of_machine(N), host="h"))

    def reported(by: Situation) -> None:
        steps = report.decide(by)
        next(steps)
        steps.send(made)

    reported(own)
    made.put(Stored(boot(InstallStep.ALIVE), 1), N)
    with pytest.raises(Denied, match="n is lent by a pool"):
        reported(own)
    reported(situation())

"""Launches and deletions, step by step: each fact is recorded before the next step, and a successor repeats no order."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.model.pool import LaunchFacts, PoolNode, PoolNodeState
from nodepool_ocb.model.records import State
from nodepool_ocb.pool.configuration import PoolLabel, PoolLabelPolicy
from nodepool_ocb.pool.launches.deleting import DeletionAction, DeletionView, next_deletion
from nodepool_ocb.pool.launches.launching import (
    HOST,
    STEPS,
    LaunchAction,
    LaunchDeadline,
    LaunchFact,
    LaunchRefusal,
    LaunchSeconds,
    LaunchView,
    MachineSight,
    RolesSight,
    deadline,
    ending,
    fact,
    next_step,
)

NOW: Final = 1000.0


def record(state: PoolNodeState = PoolNodeState.BUILDING, **fields: Any) -> PoolNode:
    """A node with a stamp; ``facts`` are further keys of its facts."""
    facts = {"key": "5f", "since": NOW, **fields.pop("facts", {})}
    return PoolNode(state=state, state_time=NOW, driver_data=facts, **fields)


def view(node: PoolNode, **fields: Any) -> LaunchView:
    given: dict[str, Any] = {
        "label": PoolLabel(name="small"),
        "policy": PoolLabelPolicy(name="small"),
        "seconds": LaunchSeconds(),
        "now": NOW,
        **fields,
    }
    return LaunchView(record=node, **given)


NEW: Final = PoolNode(state=PoolNodeState.INIT, state_time=NOW)
NAMED: Final = record()
CREATED: Final = record(external_id="m1")
ADDRESSED: Final = record(external_id="m1", interface_ip="10.0.0.1")
PINNED: Final = record(external_id="m1", interface_ip="10.0.0.1", host_keys=("ssh-ed25519 AAAA",))
TESTING: Final = replace(PINNED, state=PoolNodeState.TESTING)
ANNEALED: Final = PoolLabelPolicy(name="small", annealed=True)


def test_a_launch_records_each_fact_before_the_next_step() -> None:
    running = MachineSight(external_id="m1", addressed=True, at=NOW)
    story = [
        (view(NEW), LaunchAction.WRITE_NAME),
        (view(NAMED, drawn=True), LaunchAction.CREATE_MACHINE),
        (view(NAMED, drawn=True, machine=running), LaunchAction.WRITE_ID),
        (view(CREATED, machine=running), LaunchAction.WRITE_ADDRESS),
        (view(ADDRESSED, machine=running), LaunchAction.SCAN_KEYS),
        (view(ADDRESSED, machine=running, scanned=True), LaunchAction.WRITE_KEYS),
        (view(PINNED, machine=running), LaunchAction.SET_READY),
    ]
    for seen, action in story:
        step = next_step(seen)
        assert step is not None
        assert step.action is action


@pytest.mark.parametrize(
    ("seen", "action"),
    [
        (view(NAMED), LaunchAction.FIND_MACHINE),
        (view(NAMED, machine=MachineSight(external_id="m1")), LaunchAction.WRITE_ID),
        (view(NAMED, sought=True), LaunchAction.WRITE_NAME),
        (view(CREATED), LaunchAction.LOOK),
        (view(ADDRESSED), LaunchAction.SCAN_KEYS),
        (view(TESTING, policy=ANNEALED), LaunchAction.ENROL),
    ],
)
def test_a_successor_continues_after_the_newest_fact_and_orders_no_machine_before_it_asked(
    seen: LaunchView, action: LaunchAction
) -> None:
    step = next_step(seen)
    assert step is not None
    assert step.action is action


def test_only_a_stamp_of_this_hold_is_ordered() -> None:
    """In no view without ``drawn`` is a machine created: the exhaustive space of the named launch."""
    refusals = [None, *(LaunchRefusal("find-machine", "no", party) for party in ("host", "provider", "machine"))]
    for sought in (False, True):
        for refused in refusals:
            for now in (NOW, NOW + 2, NOW + 1e6):
                step = next_step(view(NAMED, sought=sought, refused=refused, now=now))
                assert step is not None
                assert step.action is not LaunchAction.CREATE_MACHINE


def test_a_machine_that_builds_is_looked_at_less_and_less_often_until_the_deadline() -> None:
    building = MachineSight(external_id="m1", state="building", at=NOW + 50)
    early = next_step(view(CREATED, machine=building, now=NOW + 50))
    assert early is not None
    assert (early.action, early.seconds) == (LaunchAction.WAIT, 5.0)
    due = next_step(view(CREATED, machine=building, now=NOW + 56))
    assert due is not None
    assert due.action is LaunchAction.LOOK
    late = next_step(view(CREATED, machine=building, now=NOW + 301))
    assert late is not None
    assert (late.action, late.reason) == (
        LaunchAction.FAIL,
        "deadline boot of 300 s is over: the machine is building and has no address",
    )


def test_a_machine_that_runs_without_an_address_is_awaited() -> None:
    step = next_step(view(CREATED, machine=MachineSight(external_id="m1", addressed=False, at=NOW)))
    assert step is not None
    assert step.action is LaunchAction.WAIT


def test_a_node_that_never_enters_the_cluster_ends_the_launch_at_the_deadline_of_the_roles() -> None:
    step = next_step(view(TESTING, policy=ANNEALED, now=NOW + 1e6))
    assert step is not None
    assert step.action is LaunchAction.FAIL


@pytest.mark.parametrize("state", ["failed", "deleting"])
def test_a_machine_that_failed_ends_the_launch_with_the_words_of_the_provider(state: str) -> None:
    step = next_step(view(CREATED, machine=MachineSight(external_id="m1", state=state, fault="no host", at=NOW)))
    assert step is not None
    assert (step.action, step.reason) == (LaunchAction.FAIL, f"the machine is {state}: no host")


def test_a_machine_that_is_gone_ends_the_launch() -> None:
    step = next_step(view(CREATED, gone=True))
    assert step is not None
    assert (step.action, step.reason) == (LaunchAction.FAIL, "the machine is gone")


@pytest.mark.parametrize("party", ["machine", "provider", "quota", "request"])
def test_a_refused_order_ends_the_launch(party: str) -> None:
    step = next_step(view(NAMED, drawn=True, refused=LaunchRefusal("create-machine", "no room", party, NOW)))
    assert step is not None
    assert (step.action, step.reason, step.party) == (LaunchAction.FAIL, "no room", party)
    assert ending(party) is (PoolNodeState.ABORTED if party == "quota" else PoolNodeState.FAILED)


def test_a_fault_of_this_host_is_tried_again_and_never_fails_a_launch() -> None:
    refused = LaunchRefusal("create-machine", "no thread", HOST, NOW)
    soon = next_step(view(NAMED, refused=refused))
    again = next_step(view(NAMED, refused=refused, now=NOW + 2))
    late = next_step(view(NAMED, refused=refused, now=NOW + 301))
    assert soon is not None
    assert again is not None
    assert late is not None
    assert (soon.action, again.action) == (LaunchAction.WAIT, LaunchAction.FIND_MACHINE)
    assert (late.action, ending(late.party)) == (LaunchAction.FAIL, PoolNodeState.ABORTED)


def test_a_launch_does_not_begin_before_its_back_off_is_over() -> None:
    later = record(PoolNodeState.INIT, facts={"key": "", "not_before": NOW + 5})
    step = next_step(view(later))
    assert step is not None
    assert (step.action, step.seconds) == (LaunchAction.WAIT, 5.0)
    over = next_step(view(later, now=NOW + 5))
    assert over is not None
    assert over.action is LaunchAction.WRITE_NAME


def roles(annealers: bool = True, **states: State) -> RolesSight:
    return RolesSight(states=states, reasons={"dns": "exit status 3"}, annealers=annealers)


def test_a_node_is_ready_when_all_its_roles_are_active() -> None:
    waits = next_step(view(TESTING, enrolled=True, roles=roles(dns=State.TODO, ntp=State.ACTIVE), policy=ANNEALED))
    done = next_step(view(TESTING, enrolled=True, roles=roles(dns=State.ACTIVE, ntp=State.ACTIVE), policy=ANNEALED))
    assert waits is not None
    assert done is not None
    assert (waits.action, waits.reason, waits.seconds) == (LaunchAction.WAIT, "dns is TODO", 1800.0)
    assert done.action is LaunchAction.SET_READY


@pytest.mark.parametrize("keep", [False, True])
def test_a_role_in_error_ends_the_wait_with_its_name(keep: bool) -> None:
    policy = replace(ANNEALED, keep_failed=keep)
    step = next_step(view(TESTING, enrolled=True, roles=roles(dns=State.ERROR, ntp=State.TODO), policy=policy))
    assert step is not None
    assert (step.action, step.reason, step.keep) == (LaunchAction.FAIL, "role dns is in ERROR: exit status 3", keep)


def test_the_deadline_of_the_roles_says_that_no_annealer_runs() -> None:
    step = next_step(view(TESTING, enrolled=True, roles=roles(False, dns=State.TODO), policy=ANNEALED, now=NOW + 1801))
    assert step is not None
    assert step.reason == (
        "deadline roles of 1800 s is over: dns is TODO; no annealer is running, and one must be started"
    )


def test_each_fact_but_the_first_and_the_last_has_a_deadline() -> None:
    found = {fact(each): deadline(each, LaunchSeconds()) for each in (NEW, NAMED, CREATED, ADDRESSED, PINNED, TESTING)}
    assert {known: each and each[0] for known, each in found.items()} == {
        LaunchFact.RECORDED: None,
        LaunchFact.NAMED: LaunchDeadline.CREATE,
        LaunchFact.CREATED: LaunchDeadline.BOOT,
        LaunchFact.ADDRESSED: LaunchDeadline.KEYSCAN,
        LaunchFact.PINNED: None,
        LaunchFact.TESTING: LaunchDeadline.ROLES,
    }


LENT: Final = MachineSight(external_id="m1#0", addressed=True, keyed=True, at=NOW)


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({}, LaunchAction.CREATE_MACHINE),
        ({"machine": LENT}, LaunchAction.SET_READY),
        ({"machine": replace(LENT, keyed=False)}, LaunchAction.WRITE_NAME),
        ({"machine": replace(LENT, state="building")}, LaunchAction.WRITE_NAME),
        ({"policy": ANNEALED}, LaunchAction.WRITE_NAME),
        ({"policy": ANNEALED, "machine": LENT}, LaunchAction.WRITE_NAME),
        ({"refused": LaunchRefusal(LaunchAction.CREATE_MACHINE, "no route", HOST, NOW)}, LaunchAction.WAIT),
        (
            {"refused": LaunchRefusal(LaunchAction.CREATE_MACHINE, "no route", HOST, NOW - 2)},
            LaunchAction.CREATE_MACHINE,
        ),
        ({"refused": LaunchRefusal(LaunchAction.CREATE_MACHINE, "no slot", at=NOW)}, LaunchAction.FAIL),
    ],
)
def test_a_machine_that_is_lent_is_recorded_in_one_write(fields: dict[str, Any], action: LaunchAction) -> None:
    step = next_step(view(replace(NEW, created_time=NOW), lent=True, **fields))
    assert step is not None
    assert step.action is action


@pytest.mark.parametrize(("created", "not_before"), [(NOW, 0.0), (NOW - 1000, NOW)])
def test_a_fault_of_this_host_ends_the_launch_of_a_machine_that_is_lent_by_a_deadline(
    created: float, not_before: float
) -> None:
    facts = {"key": "", "not_before": not_before}
    node = replace(NEW, created_time=created, driver_data=facts)
    refused = LaunchRefusal(LaunchAction.CREATE_MACHINE, "no route", HOST, NOW)
    steps = [next_step(view(node, lent=True, refused=refused, now=NOW + after)) for after in (299.0, 300.0)]
    assert [each and (each.action, each.reason, each.party) for each in steps] == [
        (LaunchAction.CREATE_MACHINE, None, "machine"),
        (LaunchAction.FAIL, "deadline create of 300 s is over: no route", HOST),
    ]


def test_a_launch_that_ended_has_no_step() -> None:
    ended = [state for state in PoolNodeState if fact(replace(NAMED, state=state)) is LaunchFact.OVER]
    assert set(ended) == {*PoolNodeState} - {PoolNodeState.INIT, PoolNodeState.BUILDING, PoolNodeState.TESTING}
    assert all(next_step(view(replace(NAMED, state=state))) is None for state in ended)
    assert {*LaunchFact} == {*STEPS, LaunchFact.OVER}


# -- deletions --


def steps(node: PoolNode, keep_record: bool = False, found: str | None = None) -> list[str]:
    """The steps of a deletion in which each call succeeds."""
    seen = DeletionView(record=node, now=NOW, keep_record=keep_record)
    story = []
    while (step := next_deletion(seen)) is not None:
        story.append(str(step.action))
        if step.action is DeletionAction.WRITE_DELETING:
            seen = replace(seen, record=replace(seen.record, state=PoolNodeState.DELETING))
        elif step.action is DeletionAction.FIND_MACHINE:
            seen = replace(seen, sought=True, found=found, gone=found is None)
        elif step.action is DeletionAction.DELETE_MACHINE:
            seen = replace(seen, gone=True)
        elif step.action is DeletionAction.DISMISS:
            seen = replace(seen, dismissed=True)
        elif step.action is DeletionAction.WRITE_BARE:
            bare = msgspec.to_builtins(LaunchFacts(key=""))
            seen = replace(seen, record=replace(seen.record, external_id=None, driver_data=bare))
        else:
            assert step.action is DeletionAction.DELETE_RECORD
            break
    return story


USED: Final = record(PoolNodeState.USED, external_id="m1", facts={"fqdn": "n1.example.com"})


@pytest.mark.parametrize(
    ("node", "story"),
    [
        (USED, ["write-deleting", "delete-machine", "dismiss", "delete-record"]),
        (record(PoolNodeState.USED, external_id="m1"), ["write-deleting", "delete-machine", "delete-record"]),
        (NEW, ["write-deleting", "delete-record"]),
        (NAMED, ["write-deleting", "find-machine", "delete-record"]),
        (replace(USED, state=PoolNodeState.DELETING), ["delete-machine", "dismiss", "delete-record"]),
    ],
)
def test_a_deletion_is_a_launch_in_reverse(node: PoolNode, story: list[str]) -> None:
    assert steps(node) == story


def test_only_the_record_of_a_launch_that_ended_stays() -> None:
    assert steps(USED, keep_record=True) == steps(USED)


def test_a_machine_that_an_order_left_is_found_by_its_stamp_and_deleted() -> None:
    assert steps(NAMED, found="m7") == ["write-deleting", "find-machine", "delete-machine", "delete-record"]


@pytest.mark.parametrize("state", [PoolNodeState.FAILED, PoolNodeState.ABORTED])
def test_a_failed_launch_leaves_a_record_without_a_machine(state: PoolNodeState) -> None:
    assert steps(record(state), keep_record=True) == ["find-machine", "write-bare"]
    assert steps(record(state, external_id="m1"), keep_record=True) == ["delete-machine", "write-bare"]
    assert steps(replace(NEW, state=state), keep_record=True) == []


def test_a_refused_deletion_is_tried_again_after_a_pause_that_doubles() -> None:
    refused = LaunchRefusal("delete-machine", "no answer", "provider", NOW)
    pauses = []
    for refusals in (1, 2, 3, 20):
        step = next_deletion(
            DeletionView(
                record=record(PoolNodeState.DELETING, external_id="m1"), now=NOW, refused=refused, refusals=refusals
            )
        )
        assert step is not None
        pauses.append(step.seconds)
    assert pauses == [1.0, 2.0, 4.0, 60.0]

"""The next act of an annealer for a request to switch a machine, and the record after it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.powering import (
    AskAgain,
    CarryOutStep,
    FailRequest,
    PowerLimits,
    PowerSituation,
    TakeRequest,
    WaitForOthers,
)
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model.maintenance import Maintenance
from nodepool_ocb.model.power import MachinePower, PowerAction, Powered, PowerRequest, PowerStep
from nodepool_ocb.model.records import Claim, Node

NOW = 1000.0
LIMITS = PowerLimits(at_once=2, gap_seconds=5.0)


def request(action: PowerAction = PowerAction.CYCLE, **own: Any) -> PowerRequest:
    given: dict[str, Any] = {"id": "0" * 16, "by": "ann", "since": NOW, "until": NOW + 900.0, **own}
    return PowerRequest(action=action, **given)


def world(*records: MachinePower, rack: str | None = None) -> World:
    """Nodes n0, n1 ... with these powers."""
    made = World()
    for number, record in enumerate(records):
        made.put_node(f"n{number}", Node(rack=rack), 0)
        made.put(Stored(record, number), f"n{number}")
    return made


def decided(made: World, fqdn: str = "n0", living: tuple[str, ...] = ("a", "b"), now: float = NOW) -> Any:
    busy = {name: stored.record for name, stored in powering.powers(made).items() if powering.at_work(stored.record)}
    situation = PowerSituation(annealer="a", living=living, limits=LIMITS, at_work=busy)
    return powering.decide(made, fqdn, situation, now)


def power(asked: PowerRequest | None, **own: Any) -> MachinePower:
    return MachinePower(driver="manual", request=asked, **own)


def test_a_request_is_taken_carried_out_and_recorded_step_by_step() -> None:
    record, seen = power(request()), []
    taken = decided(world(record))
    assert isinstance(taken, TakeRequest)
    record = taken.record
    while record.request is not None:
        assert decided(world(record)) == CarryOutStep(record.request)
        seen.append(record.request.step)
        state = Powered.OFF if record.request.step is PowerStep.OFF else Powered.ON
        record = powering.after(record, state, NOW + len(seen))
    assert seen == [PowerStep.OFF, PowerStep.ON]
    assert record.result is not None
    assert record.result.done
    assert record.result.annealer == "a"
    assert (record.powered, record.seen) == (Powered.ON, NOW + 2)


def test_a_request_of_a_living_annealer_is_left_to_it_and_one_of_a_dead_one_goes_on_at_its_step() -> None:
    record = power(request(annealer="b", step=PowerStep.ON, began=NOW - 9))
    assert decided(world(record)) is None
    taken = decided(world(record), living=("a",))
    assert isinstance(taken, TakeRequest)
    assert taken.record.request is not None
    assert (taken.record.request.annealer, taken.record.request.step) == ("a", PowerStep.ON), "not OFF once more"


def test_a_request_that_no_annealer_finished_in_time_fails() -> None:
    finish = decided(world(power(request())), now=NOW + 900.0)
    assert isinstance(finish, FailRequest)
    assert finish.record.request is None
    assert finish.record.result is not None
    assert "within 900 s" in (finish.record.result.reason or "")


def test_few_machines_of_a_chassis_are_switched_at_the_same_time() -> None:
    busy = power(request(annealer="b", began=NOW - 99), chassis="c1")
    waiting = decided(world(power(request(), chassis="c1"), busy, busy))
    assert isinstance(waiting, WaitForOthers)
    assert "at chassis c1" in waiting.reason
    assert isinstance(decided(world(power(request(), chassis="c1"), busy)), TakeRequest)
    assert isinstance(decided(world(power(request(), chassis="c2"), busy, busy)), TakeRequest)


def test_machines_of_a_rack_are_switched_with_a_gap() -> None:
    just = power(request(annealer="b", step=PowerStep.ON, began=NOW - 2))
    waiting = decided(world(power(request()), just, rack="r1"))
    assert isinstance(waiting, WaitForOthers)
    assert waiting.seconds == pytest.approx(3.0)
    assert isinstance(decided(world(power(request()), just, rack="r1"), now=NOW + 3.1), TakeRequest)
    assert isinstance(decided(world(power(request()), just)), TakeRequest), (
        "machines without rack and chassis are apart"
    )


def test_a_request_that_a_dead_annealer_began_goes_on_without_a_wait() -> None:
    busy = power(request(annealer="b", began=NOW), chassis="c1")
    begun = power(request(annealer="gone", step=PowerStep.OFF, began=NOW - 9), chassis="c1")
    assert isinstance(decided(world(begun, busy, busy)), TakeRequest), "its machine may be off"


def test_a_question_for_a_state_takes_no_place() -> None:
    asking = power(request(PowerAction.LOOK, annealer="b", began=NOW), chassis="c1")
    assert isinstance(decided(world(power(request(), chassis="c1"), asking, asking)), TakeRequest)


def test_a_state_is_asked_for_without_a_wait() -> None:
    busy = power(request(annealer="b", began=NOW), chassis="c1")
    assert isinstance(
        decided(world(power(request(PowerAction.LOOK), chassis="c1"), busy, busy, rack="r1")), TakeRequest
    )


def test_a_second_request_is_refused_and_the_same_one_again_changes_nothing() -> None:
    first = powering.asked(power(None), request())
    assert powering.asked(first, request()) == first
    begun = power(request(annealer="b", step=PowerStep.OFF))
    assert powering.asked(begun, request()) == begun, "it goes on where it is"
    with pytest.raises(Conflict, match="ann asked for power cycle before, and that is waiting"):
        powering.asked(first, request(id="1" * 16))


def test_a_failure_keeps_the_state_that_was_seen_before() -> None:
    record = replace(power(request(annealer="a")), powered=Powered.ON, seen=5.0)
    after = powering.failed(record, "x" * 900, None, NOW)
    assert (after.powered, after.seen, after.request) == (Powered.ON, 5.0, None)
    assert after.result is not None
    assert len(after.result.reason or "") == powering.REASON_CHARACTERS


def test_a_node_without_settings_is_named_with_the_command_that_sets_them() -> None:
    with pytest.raises(NotFound, match="nodepool-ocb power set n9"):
        powering.record_of(world(), "n9")


OWED = 500.0  # since when the machine must be off


def owed(**fields: Any) -> MachinePower:
    """A machine with a BMC, which must be off."""
    return MachinePower(driver="ipmi", address="bmc", off_since=OWED, **fields)


def refused(record: MachinePower, now: float) -> MachinePower:
    """The request of the record fails."""
    return powering.failed(record, "bmc does not answer", None, now)


def test_a_machine_that_must_be_off_is_switched_off_again_after_longer_and_longer_pauses() -> None:
    record, now, asked = refused(owed(request=request(PowerAction.OFF)), OWED), OWED, []
    while len(asked) < 12:
        again = powering.off_again(record, now)
        assert again is not None
        assert decided(world(record), now=again - 0.1) is None
        once = decided(world(record), now=again)
        assert isinstance(once, AskAgain)
        assert decided(world(record), now=again + 5.0).record.request.id == once.record.request.id, "of each annealer"
        assert (once.record.request.action, once.record.request.by) == (PowerAction.OFF, "annealer")
        assert powering.off_again(once.record, again) is None, "it is under way"
        asked.append(again - now)
        record, now = refused(once.record, again), again
    assert asked == [60.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, *[3600.0] * 5]


@pytest.mark.parametrize(
    ("action", "step", "state", "over"),
    [
        (PowerAction.OFF, PowerStep.OFF, Powered.OFF, True),
        (PowerAction.OFF, PowerStep.OFF, Powered.UNKNOWN, False),  # no order was given
        (PowerAction.OFF, PowerStep.OFF, Powered.ON, False),  # as here
        (PowerAction.CYCLE, PowerStep.OFF, Powered.ON, False),
        (PowerAction.ON, PowerStep.ON, Powered.OFF, False),
        (PowerAction.ON, PowerStep.ON, Powered.ON, True),  # a person wants it
        (PowerAction.CYCLE, PowerStep.OFF, Powered.OFF, True),  # the next installation
        (PowerAction.LOOK, PowerStep.LOOK, Powered.OFF, True),  # a person took its plug
        (PowerAction.LOOK, PowerStep.LOOK, Powered.ON, False),
        (PowerAction.ROTATE, PowerStep.ROTATE, Powered.UNKNOWN, False),
    ],
)
def test_it_must_be_off_until_it_was_seen_off_or_a_person_has_switched_it_on(
    action: PowerAction, step: PowerStep, state: Powered, over: bool
) -> None:
    after = powering.after(owed(request=request(action, step=step)), state, NOW)
    assert after.off_since == (None if over else OWED)


@pytest.mark.parametrize("action", [PowerAction.OFF, PowerAction.CYCLE])
def test_a_step_that_ended_without_its_order_is_done_again(action: PowerAction) -> None:
    begun = power(request(action, annealer="a", step=PowerStep.OFF))
    after = powering.after(begun, Powered.ON, NOW)
    assert (after.request, after.result, after.powered) == (begun.request, None, Powered.ON)
    assert isinstance(decided(world(after)), CarryOutStep)


def test_a_power_on_that_failed_does_not_forget_that_the_machine_must_be_off() -> None:
    asked = powering.asked(owed(), request(PowerAction.ON))
    assert (asked.off_since, powering.off_again(asked, NOW)) == (OWED, None), "it is not switched off meanwhile"
    assert refused(asked, NOW).off_since == OWED
    assert powering.off_again(refused(asked, NOW), NOW) == OWED + powering.AGAIN_SECONDS
    assert powering.off_again(replace(owed(), driver="manual"), NOW) is None


@pytest.mark.parametrize("action", [PowerAction.LOOK, PowerAction.ROTATE, PowerAction.CYCLE])
def test_no_other_request_puts_off_that_a_machine_is_switched_off_again(action: PowerAction) -> None:
    record, ends = owed(), OWED
    while ends < OWED + 9000.0:
        ends += 1800.0
        record = refused(replace(record, request=request(action)), ends)
        assert powering.off_again(record, ends) == OWED + powering.AGAIN_SECONDS
    assert isinstance(decided(world(record), now=ends), AskAgain)


def test_times_of_a_leader_whose_clock_was_ahead_do_not_put_it_off() -> None:
    far = NOW + 10**6
    for record in (replace(owed(), off_since=far), refused(owed(request=request(PowerAction.OFF)), far)):
        assert isinstance(decided(world(record)), AskAgain)


def test_a_machine_that_must_be_off_is_not_switched_off_while_a_noderole_is_at_work_or_the_node_is_held() -> None:
    made, now = world(owed()), OWED + powering.AGAIN_SECONDS
    made.put_claim("n0", Claim(annealer="b", noderole="os@n0", run="r", epoch=1, since=OWED))
    waits = decided(made, now=now)
    assert isinstance(waits, WaitForOthers)
    assert waits.reason == "os@n0 is at work on it"
    assert "off yet; os@n0 is at work on it; if it may be on: nodepool-ocb power on n0" in str(sentence(made, now))
    made.put_claim("n0", None)
    made.put_node("n0", Node(hold=Maintenance(by="ann", since=OWED, until=now + 1.0)), 1)
    waits = decided(made, now=now)
    assert isinstance(waits, WaitForOthers)
    assert waits.reason == "node n0 is held"
    assert isinstance(decided(made, now=now + 1.0), AskAgain)


def sentence(made: World, now: float) -> str | None:
    return powering.off_sentence(made.nodes["n0"], now)


def test_a_sentence_says_why_a_machine_is_not_off_yet() -> None:
    begins = "it must be switched off after its use, and is not off yet"
    assert sentence(world(power(None)), NOW) is None
    record = owed(request=request(PowerAction.OFF))
    assert sentence(world(record), NOW) == f"{begins}; power off is under way"
    record = refused(record, OWED + 200.0)
    said = f"{begins}; power off failed: bmc does not answer; it is tried again in 150 s"
    assert sentence(world(record), OWED + 250.0) == f"{said}; if it may be on: nodepool-ocb power on n0"

"""Each guard of an installation's steps: the writes, questions and orders that must not be. The test answers for ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine.run import RunEvent
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.errors import Invalid, Stale, Unavailable
from nodepool_ocb.jigs.jig import Failed, Succeeded
from nodepool_ocb.jigs.ssh.bootlogs import LogPiece, LogPlace
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.keys import NoKey
from nodepool_ocb.model import paths
from nodepool_ocb.model.aliveness import Suspicion
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.power import MachinePower, PowerAction, PowerRequest
from nodepool_ocb.model.records import Set
from nodepool_ocb.provisioning.installation import BootLook
from nodepool_ocb.provisioning.orders import ChosenImage, Wish
from nodepool_ocb.store import images
from nodepool_ocb_annealer.runs import installing
from tests.annealer.runs.installdesk import (
    ADMIN,
    AFTER,
    BEFORE,
    FORMER_KEY,
    NEW_KEY,
    SESSION,
    InstallDesk,
    N,
)

QUIET = {"console": "no"}  # no console is opened
IMAGE = ChosenImage(image="debian", build="0000000001", format="raw", checksum="sha256:" + "a" * 64, size=1)


@pytest.fixture
def desk() -> Iterator[InstallDesk]:
    made = InstallDesk()
    yield made
    made.close()


@pytest.fixture
def rescue() -> Iterator[InstallDesk]:
    """A desk whose node is rescued, so no image is chosen."""
    made = InstallDesk("rescue")
    yield made
    made.close()


def only(desk: InstallDesk) -> Any:
    (answer,) = desk.answers
    return answer


def installation(changes: list[Any]) -> Installation:
    """The record of the installation in a transaction."""
    (found,) = [each.data for each in changes if getattr(each, "path", "") == paths.installation(N)]
    assert isinstance(found, Installation)
    return found


# -- the record of another annealer --


def test_a_run_that_continues_writes_its_name_and_its_epoch_before_it_asks_the_machine(desk: InstallDesk) -> None:
    desk.holds(InstallStep.REBOOTING, run="former", epoch=0)
    desk.begins()
    desk.looks()
    assert desk.idle
    adopted = installation(desk.written())
    assert (adopted.run, adopted.epoch) == (desk.attempt.grant.run, desk.attempt.grant.epoch)
    desk.turn()
    assert [question.boot_id for _, question in desk.machine.questions] == [""], "and it was not told to boot at once"


def test_a_run_that_continues_after_the_deadline_gets_a_new_one_also_if_its_first_write_is_refused(
    desk: InstallDesk,
) -> None:
    """The installer reports at any moment, and each of its reports changes the version of the record."""
    desk.holds(InstallStep.IDENTIFIED, run="former", epoch=0, deadline=time.time() - 60.0)
    desk.begins()
    desk.written(refused=Stale(paths.installation(N)))
    desk.looks()
    assert desk.answers == []
    adopted = installation(desk.written())
    assert (adopted.run, adopted.deadline > time.time()) == (desk.attempt.grant.run, True)
    assert desk.answers == []


def test_a_run_whose_record_is_its_own_goes_on_without_a_write(desk: InstallDesk) -> None:
    desk.holds(InstallStep.REBOOTING)
    desk.begins()
    assert desk.sent == []
    desk.turn()
    assert len(desk.machine.questions) == 1


# -- one thing at a time --


def test_nothing_is_decided_while_a_write_is_under_way_and_all_again_after_a_refusal(desk: InstallDesk) -> None:
    desk.holds(InstallStep.VERIFIED)
    desk.begins()
    for _ in range(3):
        desk.looks()
    assert len(desk.sent) == 1
    assert installation(desk.sent[0][0]).boot_id == BEFORE, "by which its former boot is known"
    assert not desk.waits()
    desk.written(refused=Stale(paths.installation(N)))
    assert desk.sent == []
    assert desk.waits()
    desk.looks()
    assert len(desk.sent) == 1, "the refused write does not hold it up"


def test_the_machine_is_asked_once_at_a_time_and_again_after_a_pause(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ask = [], desk.installer._workers.ask
    monkeypatch.setattr(desk.installer._workers, "ask", lambda *given: asked.append(given) or ask(*given))
    desk.machine.answer = BootLook(why="silence")
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.looks()
    assert len(asked) == 1
    desk.turn()
    desk.written()  # the obstacle
    desk.looks()
    assert (len(asked), desk.waits()) == (1, True), "the pause is that of the settings"


@pytest.mark.parametrize("moment", ["before the look", "during the look", "during the write", "before a refusal"])
def test_a_run_in_another_phase_is_not_decided(desk: InstallDesk, moment: str) -> None:
    desk.machine.answer = BootLook(boot_id=AFTER)
    desk.holds(InstallStep.PUBLISHED_LOCAL if "look" in moment else InstallStep.VERIFIED)
    if moment != "before the look":
        desk.begins()
    desk.leaves_turn()
    if moment == "before the look":
        desk.begins()
        assert desk.machine.questions == []
    elif moment == "during the look":
        desk.turn()
    else:
        desk.written(Stale(paths.installation(N)) if moment == "before a refusal" else None)
    assert (desk.answers, desk.sent, desk.idle, desk.waits()) == ([], [], True, False)


def test_a_node_that_is_not_ours_any_more_is_not_decided(desk: InstallDesk) -> None:
    desk.machine.answer = BootLook(boot_id=AFTER)
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.installer.forget(desk.attempt)
    desk.turn()
    desk.looks()
    desk.holds(InstallStep.VERIFIED)
    desk.installer.forget(desk.attempt)
    desk.looks()
    assert (desk.answers, desk.sent, desk.idle) == ([], [], True)


def test_a_write_that_ends_after_the_run_changes_nothing(desk: InstallDesk) -> None:
    desk.holds(InstallStep.VERIFIED)
    desk.begins()
    desk.installer.forget(desk.attempt)
    desk.written()
    assert (desk.answers, desk.sent, desk.idle, desk.waits()) == ([], [], True, False)


def test_a_look_of_an_earlier_step_does_not_count_and_the_next_look_is_not_put_off(desk: InstallDesk) -> None:
    desk.machine.answer = BootLook(boot_id=AFTER)
    desk.holds(InstallStep.PUBLISHED_INSTALL, boot_id="")
    desk.begins()
    desk.turn()
    noted = installation(desk.written())
    assert (noted.step, noted.boot_id) == (InstallStep.REBOOTING, AFTER)
    desk.turn()
    _, second = desk.machine.questions
    assert (second[1].boot_id, second[1].reboot) == ("", ""), "it is looked at before it is told to boot"


# -- the claim may be gone --


@pytest.mark.parametrize(
    "lose",
    [
        lambda desk: desk.attempt.gone.set(),
        lambda desk: setattr(desk.session, "trusted", False),
        lambda desk: setattr(desk.session, "id", SESSION + 1),
    ],
)
def test_a_machine_is_not_asked_while_the_claim_may_be_gone(desk: InstallDesk, lose: Callable[[Any], None]) -> None:
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    lose(desk)
    desk.begins()
    desk.turn()
    assert (desk.machine.questions, desk.answers, desk.sent, desk.waits()) == ([], [], [], True)


def test_nothing_is_decided_by_a_look_that_was_not_made(desk: InstallDesk) -> None:
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.session.trusted = False
    desk.begins()
    desk.holds(InstallStep.PUBLISHED_LOCAL, deadline=1.0)  # it passes meanwhile
    desk.turn()
    assert (desk.answers, desk.waits()) == ([], True)


def test_a_machine_of_which_the_node_has_no_record_is_not_asked(desk: InstallDesk) -> None:
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.world.nodes[N].record = None
    desk.begins()
    assert (desk.idle, desk.answers, desk.sent, desk.waits()) == (True, [], [], True)


# -- a fault of this host --


@pytest.mark.parametrize("end", [InstallDesk.leaves_turn, lambda desk: desk.installer.forget(desk.attempt)])
def test_a_fault_of_this_host_after_the_end_of_a_run_is_none_of_the_run(
    desk: InstallDesk, end: Callable[[InstallDesk], None]
) -> None:
    desk.machine.answer = OSError(24, "too many files")
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    end(desk)
    desk.turn()
    assert desk.answers == []


@pytest.mark.parametrize(
    ("fault", "reaching"),
    [
        (OwnFault("connect", "no route"), True),
        (NoKey("no key"), True),
        (OSError(24, "too many files"), False),
        (ValueError("of a library"), False),
    ],
)
def test_a_fault_of_this_host_is_no_observation_of_the_machine(
    desk: InstallDesk, fault: Exception, reaching: bool
) -> None:
    desk.machine.answer = fault
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.turn()
    answer = only(desk)
    assert (answer.event, answer.outcome.reaching, desk.sent) == (RunEvent.FAULT, reaching, [])


@pytest.mark.parametrize("step", [None, InstallStep.PUBLISHED_LOCAL])
def test_without_a_thread_this_host_is_at_fault(
    desk: InstallDesk, step: InstallStep | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.installer, "_workers", SimpleNamespace(ask=lambda *_: False, close=lambda: None))
    if step is not None:
        desk.holds(step)
    desk.begins(Wish(image="debian"))
    assert only(desk).event is RunEvent.FAULT


@pytest.mark.parametrize(
    ("raised", "event", "words"),
    [
        (Invalid("image debian has no READY build"), RunEvent.ENDED, "step checked: image debian has no READY build"),
        (Unavailable("no answer"), RunEvent.FAULT, "no answer"),
        (ValueError("of a library"), RunEvent.FAULT, "of a library"),
    ],
)
def test_an_image_that_is_not_there_is_a_failure_and_one_that_cannot_be_read_is_none(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch, raised: Exception, event: RunEvent, words: str
) -> None:
    def read(*_: Any) -> Any:
        raise raised

    monkeypatch.setattr(images, "read", read)
    desk.begins(Wish(image="debian"))
    desk.turn()
    answer = only(desk)
    assert (answer.event, desk.sent) == (event, [])
    assert words in answer.outcome.reason


def test_an_image_that_was_chosen_after_the_end_of_the_run_begins_nothing(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "read", lambda *_: {})
    monkeypatch.setattr(installing.orders, "newest", lambda *_: IMAGE)
    desk.begins(Wish(image="debian"))
    desk.looks()
    desk.leaves_turn()
    desk.turn()
    assert (desk.sent, desk.answers, desk.idle) == ([], [], True)


# -- the first record --


def test_the_reason_of_a_failed_installation_is_the_end_of_its_run_and_of_no_later_generation(
    rescue: InstallDesk,
) -> None:
    rescue.holds(InstallStep.REBOOTING, reason="step identified: a stranger has the token")
    rescue.begins(Wish())
    assert only(rescue).outcome.reason == "step identified: a stranger has the token"
    rescue.answers.clear()
    rescue.holds(InstallStep.REBOOTING, reason="of before", generation=rescue.attempt.grant.record.generation - 1)
    rescue.begins(Wish())
    assert installation(rescue.written()).step is InstallStep.CHECKED
    assert rescue.answers == []


@pytest.mark.parametrize("former", [{"noderole": f"provisioner-os-install@{N}"}, {"run": "of-before", "epoch": 0}])
def test_the_reason_of_an_installation_by_another_noderole_or_by_a_former_one_of_its_name_ends_no_run(
    rescue: InstallDesk, former: dict[str, Any]
) -> None:
    rescue.holds(InstallStep.REBOOTING, reason="step rebooting: 900 s passed", **former)
    rescue.begins(Wish())
    assert rescue.answers == []
    begun = installation(rescue.written())
    assert (begun.noderole, begun.step) == (rescue.attempt.name, InstallStep.CHECKED)


def test_a_run_that_is_taken_over_ends_with_the_reason_that_its_former_annealer_did_not_read(
    rescue: InstallDesk,
) -> None:
    rescue.attempt.grant = replace(rescue.attempt.grant, previous_epoch=1)
    rescue.holds(InstallStep.REBOOTING, reason="step identified: a stranger has the token", run="of-before")
    rescue.begins(Wish())
    assert only(rescue).outcome.reason == "step identified: a stranger has the token"


def test_without_a_record_and_a_wish_the_run_fails_by_name(desk: InstallDesk) -> None:
    desk.begins()
    desk.looks()  # a run that has ended is not decided again
    assert only(desk).outcome == Failed("the record of the installation is gone")


def test_a_wish_without_an_image_fails_at_its_step(desk: InstallDesk) -> None:
    desk.begins(Wish())
    assert "step checked: attribute provisioner/image is not set" in only(desk).outcome.reason


def test_the_boot_environment_of_an_older_installation_is_taken_back_first(rescue: InstallDesk) -> None:
    rescue.node(bootenv="install")
    rescue.begins(Wish())
    rescue.looks()
    changes = rescue.written()
    assert [each.data.bootenv for each in changes if isinstance(each, Set) and each.path == paths.node(N)] == ["local"]
    assert installation(rescue.written()).purpose is InstallPurpose.RESCUE


def test_a_task_that_provisions_begins_as_an_installation_and_reads_the_image_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = InstallDesk("task-provision")
    monkeypatch.setattr(images, "read", lambda *_: {})
    monkeypatch.setattr(installing.orders, "newest", lambda image, *_: replace(IMAGE, image=image))
    desk.begins(Wish(image="of-the-task"))
    desk.turn()
    made = installation(desk.written())
    assert (made.purpose, made.image, made.step) == (InstallPurpose.INSTALL, "of-the-task", InstallStep.CHECKED)
    desk.close()


# -- the order to boot --


def test_a_machine_is_told_to_boot_once_in_thirty_seconds_and_only_while_it_has_its_former_boot(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.machine.answer = BootLook(boot_id=BEFORE)
    desk.holds(InstallStep.REBOOTING)
    desk.begins()
    desk.turn()  # it was seen with its former boot
    desk.written()  # the obstacle; now it is told
    desk.turn()
    orders = [question for _, question in desk.machine.questions if question.reboot]
    assert [(question.boot_id, question.reboot) for question in orders] == [(BEFORE, "reboot")]
    for _ in range(3):
        desk.looks()
    assert (desk.idle, desk.sent) == (True, [])
    assert desk.waits()
    later = time.monotonic() + installing.ORDER_SECONDS
    monkeypatch.setattr(installing, "time", SimpleNamespace(monotonic=lambda: later))
    desk.looks()
    desk.turn()
    assert len([question for _, question in desk.machine.questions if question.reboot]) == 2, "it has not gone down"


def test_after_the_installation_only_the_key_of_the_new_disk_is_expected(desk: InstallDesk) -> None:
    desk.machine.answer = BootLook(boot_id=AFTER)
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.turn()
    ((node, question),) = desk.machine.questions
    assert (node.host_keys, question.former) == ((NEW_KEY,), (FORMER_KEY,))
    assert isinstance(only(desk).outcome, Succeeded)


def test_after_a_rescue_the_key_that_it_had_is_expected(rescue: InstallDesk) -> None:
    rescue.machine.answer = BootLook(boot_id=AFTER)
    rescue.holds(InstallStep.PUBLISHED_LOCAL, purpose=InstallPurpose.RESCUE)
    rescue.begins()
    rescue.turn()
    ((node, question),) = rescue.machine.questions
    assert (node.host_keys, question.former) == ((FORMER_KEY,), ())
    assert isinstance(only(rescue).outcome, Succeeded)


@pytest.mark.parametrize(("pinned", "expected"), [((FORMER_KEY,), (FORMER_KEY, NEW_KEY)), ((), ())])
def test_the_installer_of_a_failed_attempt_is_known_by_its_key_beside_the_pinned_one(
    desk: InstallDesk, pinned: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    desk.node(host_keys=pinned)
    desk.holds(InstallStep.REBOOTING, former_key=NEW_KEY)
    desk.begins()
    desk.turn()
    assert desk.machine.questions[0][0].host_keys == expected, "a node without a key pins the first one that it sees"


def test_a_step_that_another_request_for_power_holds_up_is_tried_later(desk: InstallDesk) -> None:
    now = time.time()
    request = PowerRequest(id="1" * 16, action=PowerAction.ON, by="ann", since=now, until=now + 900.0)
    desk.world.put(Stored(MachinePower(driver="ipmi", address="bmc1", options=QUIET, request=request), 0), N)
    desk.machine.answer = BootLook(boot_id=BEFORE)
    desk.holds(InstallStep.PUBLISHED_INSTALL)
    desk.begins()
    desk.turn()
    assert (desk.sent, desk.answers, desk.waits()) == ([], [], True)
    desk.world.put(Stored(MachinePower(driver="ipmi", address="bmc1", options=QUIET), 1), N)
    desk.looks()
    assert installation(desk.written()).step is InstallStep.REBOOTING


def test_a_silent_machine_that_can_be_switched_is_not_waited_for(desk: InstallDesk) -> None:
    desk.world.put(Stored(MachinePower(driver="ipmi", address="bmc1", options=QUIET), 0), N)
    desk.holds(InstallStep.PUBLISHED_INSTALL, boot_id="")
    desk.begins()
    desk.turn()
    assert installation(desk.written()).step is InstallStep.REBOOTING


# -- obstacles in the record --


def test_a_server_that_is_not_reached_is_named_with_the_command_that_ends_the_wait(desk: InstallDesk) -> None:
    desk.server()
    admin = desk.world.nodes[ADMIN].record
    assert admin is not None
    suspicion = Suspicion(by="a", reason="no route", since=1.0)
    desk.world.put_node(ADMIN, replace(admin, suspicion=suspicion), 1)
    desk.holds(InstallStep.VERIFIED)
    desk.begins()
    assert f"if it is off, `node dead {ADMIN}`" in (installation(desk.written()).waits or "")


def test_an_obstacle_is_written_once_and_another_one_after_a_pause(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.server()
    desk.holds(InstallStep.VERIFIED)
    desk.begins()
    desk.looks()
    assert len(desk.sent) == 1
    desk.written()
    assert desk.record.waits is not None
    assert "is not published yet by admin.example.com" in desk.record.waits
    assert desk.sent == []
    assert desk.waits()
    desk.holds(InstallStep.VERIFIED, waits="another one")
    desk.looks()
    assert desk.sent == [], "within the pause"
    later = time.monotonic() + installing.NOTE_SECONDS
    monkeypatch.setattr(installing, "time", SimpleNamespace(monotonic=lambda: later))
    desk.looks()
    assert len(desk.sent) == 1


def test_a_console_that_shows_nothing_new_replaces_no_note_of_it(desk: InstallDesk) -> None:
    desk.server()
    desk.holds(InstallStep.VERIFIED, console="the kernel panicked")
    desk.begins()
    assert installation(desk.written()).console == "the kernel panicked"


def test_a_guess_without_a_look_replaces_no_observation(desk: InstallDesk) -> None:
    desk.holds(InstallStep.PUBLISHED_LOCAL, waits="another host key answers")
    desk.begins()
    assert desk.sent == []
    desk.turn()
    assert installation(desk.written()).waits == "it does not answer (silence)"


# -- the requests of the machine --


class ReadingMachine:
    """The log of the admin node has no line of the machine; ``reads`` counts the pieces."""

    def __init__(self) -> None:
        self.reads = 0

    def bootlog(self, fqdn: str, node: Any, place: LogPlace) -> LogPiece:  # noqa: ARG002
        self.reads += 1
        return LogPiece((), place, more=False)


def test_no_log_is_read_at_a_step_without_a_boot(desk: InstallDesk) -> None:
    log = ReadingMachine()
    desk.machine.bootlog = log.bootlog  # type: ignore[attr-defined]
    desk.server("/log")
    desk.holds(InstallStep.VERIFIED)
    desk.begins()
    assert (log.reads, desk.idle) == (0, True)


@pytest.mark.parametrize("known", [None, "admin.example.com gave the kernel"])
def test_a_log_without_a_request_replaces_no_request_that_a_former_annealer_read(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch, known: str | None
) -> None:
    monkeypatch.setattr(installing, "NOTE_SECONDS", 0.0)
    log = ReadingMachine()
    desk.machine.bootlog = log.bootlog  # type: ignore[attr-defined]
    desk.server("/log")
    desk.holds(InstallStep.REBOOTING, requests=known)
    desk.begins()
    for _ in ("the log", "the machine"):
        desk.turn()
        while desk.sent:
            desk.written()
    desk.looks()
    while desk.sent:
        desk.written()
    assert log.reads == 1
    assert desk.record.requests is not None
    assert desk.record.requests.startswith(known or "no request for its boot script has come to admin.example.com")


def test_the_end_of_a_run_and_of_the_annealer_give_back_all_that_it_reads(
    desk: InstallDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(installing.captured, "order", lambda *_: pytest.fail("its console is read already"))

    class Consoles:
        def __contains__(self, fqdn: str) -> bool:
            return fqdn == N

        def fresh(self, fqdn: str) -> None:
            kept.append(f"fresh {fqdn}")

        def observed(self, fqdn: str) -> str | None:
            return f"a panic of {fqdn}"

        def end(self, fqdn: str) -> tuple[str, str]:
            kept.append(f"end {fqdn}")
            return "last words", "the file of its log"

        def close(self) -> None:
            kept.append("close")

    class Requests:
        def look(self, *_: Any) -> str | None:
            return "no request"

        def forget(self, fqdn: str) -> None:
            kept.append(f"forget {fqdn}")

        def close(self) -> None:
            kept.append("close requests")

    desk.installer._consoles, desk.installer._requests = Consoles(), Requests()  # type: ignore[assignment]
    desk.machine.answer = BootLook(former=True)
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.looks()
    assert [*dict.fromkeys(kept)] == [f"fresh {N}", f"forget {N}"], (
        "a line of an earlier step is no observation of this one"
    )
    assert installation(desk.written()).console == f"a panic of {N}"
    kept.clear()
    desk.turn()
    assert [*dict.fromkeys(kept)] == [f"forget {N}", f"end {N}"], "and a known line counts until the step ends"
    outcome = only(desk).outcome
    assert (outcome.tail, outcome.log) == ("last words", "the file of its log")
    kept.clear()
    desk.installer.forget(desk.attempt)
    assert sorted(kept) == [f"end {N}", f"forget {N}"]
    kept.clear()
    desk.installer.close()
    assert sorted(kept) == ["close", "close requests"]
    with pytest.raises(RuntimeError):
        desk.installer._workers._threads.submit(print)


def test_a_success_has_the_image_as_its_last_words(desk: InstallDesk) -> None:
    desk.machine.answer = BootLook(boot_id=AFTER)
    desk.holds(InstallStep.PUBLISHED_LOCAL)
    desk.begins()
    desk.turn()
    assert only(desk).outcome == replace(Succeeded({}), tail="image i- is on /dev/sda")
    assert desk.answers[0].ended > 0

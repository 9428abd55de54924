"""The steps of an installation: each with its observations, its deadline and its reports."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.installation import Installation, InstallPurpose, InstallStep
from nodepool_ocb.provisioning.installation import (
    LIMITS,
    LONGEST_NAME,
    PATHS,
    WIPES_KEPT,
    BootLook,
    InstallerReport,
    ReportKind,
    StepAction,
    StepFacts,
    adopted,
    advanced,
    decide,
    failed,
    following,
    limit,
    reported,
)

SUM = "sha256:" + "a" * 64
Step = InstallStep


def made(step: Step = Step.CHECKED, **fields: Any) -> Installation:
    base = Installation(
        noderole="os@n1.example.com", generation=1, run="r1", epoch=5, since=0.0, started=0.0, deadline=0.0, nonce="0" * 32,
        token_digest="0" * 64, checksum=SUM, boot_id="before", installer_boot_id="installer", host_key="ssh-ed25519 AAAA",
    )  # fmt: skip
    return replace(advanced(base, step, 0.0), **fields)


def outlook(now: float = 1.0, **fields: Any) -> StepFacts:
    sight = fields.pop("sight", None)
    return StepFacts(now=now, sight=BootLook(**sight) if sight is not None else None, **fields)


GONE = {"why": "connect: no route"}


@pytest.mark.parametrize(
    ("step", "seen", "do", "text"),
    [
        (Step.CHECKED, {"unpublished": ("a1", "a2")}, StepAction.WAIT, "install is not published yet by a1, a2"),
        (
            Step.CHECKED,
            {"unpublished": ("a1", "a2"), "unreached": ("a2",)},
            StepAction.WAIT,
            "by a1, a2; a2 does not answer: if it is off, `node dead a2`",
        ),
        (Step.CHECKED, {}, StepAction.ADVANCE, ""),
        (
            Step.REBOOTING,
            {"power": True, "power_fault": "wrong password"},
            StepAction.FAIL,
            "not switched: wrong password",
        ),
        (Step.PUBLISHED_INSTALL, {}, StepAction.LOOK, "asked for its boot id"),
        (Step.PUBLISHED_INSTALL, {"sight": GONE}, StepAction.LOOK, "start it from the network by hand"),
        (Step.PUBLISHED_INSTALL, {"sight": GONE, "power": True}, StepAction.ADVANCE, ""),
        (Step.PUBLISHED_INSTALL, {"sight": {"boot_id": "before"}}, StepAction.ADVANCE, ""),
        (Step.PUBLISHED_INSTALL, {"sight": {"fenced": 9}}, StepAction.FAIL, "obeys an annealer of epoch 9"),
        (Step.REBOOTING, {}, StepAction.LOOK, "boot from the network"),
        (Step.REBOOTING, {"sight": {"boot_id": "before"}}, StepAction.REBOOT, "has not gone down yet"),
        (
            Step.REBOOTING,
            {"sight": {"boot_id": "later"}},
            StepAction.FAIL,
            "booted from its disk instead of the network",
        ),
        (Step.REBOOTING, {"sight": {"another": True, **GONE}}, StepAction.LOOK, "another host key answers"),
        (Step.REBOOTING, {"sight": GONE}, StepAction.LOOK, "no route"),
        (Step.REBOOTING, {"sight": {"fenced": 9}}, StepAction.FAIL, "epoch 9"),
        (Step.IDENTIFIED, {}, StepAction.WAIT, "writes the image"),
        (Step.WRITTEN, {}, StepAction.WAIT, "compares the disk"),
        (Step.VERIFIED, {"unpublished": ("a1",)}, StepAction.WAIT, "local is not published yet by a1"),
        (Step.VERIFIED, {}, StepAction.ADVANCE, ""),
        (Step.PUBLISHED_LOCAL, {}, StepAction.LOOK, "boot from its disk"),
        (Step.PUBLISHED_LOCAL, {"sight": {"boot_id": "installer"}}, StepAction.LOOK, "has not left the installer"),
        (Step.PUBLISHED_LOCAL, {"sight": {"boot_id": "before"}}, StepAction.LOOK, "has not left the installer"),
        (
            Step.PUBLISHED_LOCAL,
            {"sight": {"another": True, **GONE}},
            StepAction.LOOK,
            "another host key than the pinned one",
        ),
        (
            Step.PUBLISHED_LOCAL,
            {"sight": {"another": True, "former": True, **GONE}},
            StepAction.FAIL,
            "booted another disk than the installed one; set the installed disk first",
        ),
        (Step.PUBLISHED_LOCAL, {"sight": {"fenced": 9}}, StepAction.FAIL, "epoch 9"),
        (Step.PUBLISHED_LOCAL, {"sight": {"boot_id": "disk"}}, StepAction.SUCCEED, ""),
    ],
)
def test_each_observation_leads_to_one_action(step: Step, seen: dict[str, Any], do: StepAction, text: str) -> None:
    found = decide(made(step), outlook(**seen))
    assert (found.do, text in found.text) == (do, True)


PLACES = [(purpose, step) for purpose, path in PATHS.items() for step in path[:-1]]


@pytest.mark.parametrize(("purpose", "step"), PLACES, ids=[f"{purpose}-{step}" for purpose, step in PLACES])
def test_a_step_without_an_end_fails_at_its_deadline_and_names_the_next_step_and_the_obstacle(
    purpose: InstallPurpose, step: Step
) -> None:
    stuck: dict[str, Any] = {"unpublished": ("a1",), "sight": GONE}
    record = made(step, purpose=purpose, power="0" * 16)
    record = advanced(record, step, 0.0)
    seconds = limit(record, step)
    before, over = (decide(record, outlook(seconds + late, **stuck)) for late in (-1.0, 0.0))
    assert before.do in (StepAction.WAIT, StepAction.LOOK)
    assert over.do is StepAction.FAIL
    assert over.text == f"step {following(record)} was not reached within {seconds:.0f} s: {before.text}"


def test_a_machine_that_is_decommissioned_is_switched_off_as_far_as_it_can_be() -> None:
    record = made(Step.PUBLISHED_LOCAL, purpose=InstallPurpose.WIPE)
    assert decide(record, outlook()).do is StepAction.SUCCEED, "it has no power record"
    switched = replace(record, power="0" * 16)
    assert decide(switched, outlook(power=True)).text == "the machine is being switched off"
    assert decide(switched, outlook(power=True, switched=True)).do is StepAction.SUCCEED
    refused = decide(switched, outlook(power=True, power_fault="wrong password"))
    assert (refused.do, refused.text) == (StepAction.SUCCEED, "not switched off: wrong password")


def test_each_disk_that_lost_its_data_is_a_fact_and_a_failure_is_named_by_its_disk() -> None:
    record = made(Step.IDENTIFIED, purpose=InstallPurpose.WIPE, order={"wipe_method": "discard"})
    for word in (ReportKind.WRITTEN, ReportKind.VERIFIED):
        with pytest.raises(Conflict, match="booted to wipe"):
            reported(record, InstallerReport(word=word), 1.0)
    for report in (
        InstallerReport(word=ReportKind.WIPED, disk="/dev/sda (serial S1)"),
        InstallerReport(word=ReportKind.WIPED, disk="/dev/sdb", reason="blkdiscard failed"),
        InstallerReport(word=ReportKind.WIPED, disk="/dev/sda (serial S1)"),  # its answer was lost
    ):
        record = reported(record, report, 1.0)
    assert [(each.disk, each.method, each.done, each.reason) for each in record.wiped] == [
        ("/dev/sda (serial S1)", "discard", True, None),
        ("/dev/sdb", "discard", False, "blkdiscard failed"),
    ]
    over = reported(record, InstallerReport(word=ReportKind.ERASED), 2.0)
    assert over.reason == "step wiped: not all disks were erased: /dev/sdb: blkdiscard failed"
    clean = replace(record, wiped=record.wiped[:1])
    erased = reported(clean, InstallerReport(word=ReportKind.ERASED), 2.0)
    assert erased.step is Step.WIPED
    assert reported(erased, InstallerReport(word=ReportKind.ERASED), 3.0) is erased


def test_a_machine_that_is_switched_is_not_told_to_boot_too() -> None:
    record, seen = made(Step.REBOOTING, power="0" * 16), {"boot_id": "before"}
    switching, switched = (decide(record, outlook(power=True, switched=each, sight=seen)) for each in (False, True))
    assert (switching.do, "is being switched" in switching.text) == (StepAction.LOOK, True)
    assert (switched.do, "does the BMC belong to it" in switched.text) == (StepAction.LOOK, True)
    answers = decide(replace(record, boot_id=""), outlook(power=True, sight={"boot_id": "x"}))
    assert (answers.do, "the former system answers" in answers.text) == (StepAction.LOOK, True)


def test_a_success_counts_after_the_deadline_too() -> None:
    late = outlook(LIMITS[Step.PUBLISHED_LOCAL] + 60, sight={"boot_id": "disk"})
    assert decide(made(Step.PUBLISHED_LOCAL), late).do is StepAction.SUCCEED


def test_no_time_stands_in_for_a_publication() -> None:
    """The seed waited for 60 seconds. Here a server that publishes after minutes is waited for."""
    for seconds in (0.0, 60.0, 61.0, 600.0):
        assert decide(made(), outlook(seconds, unpublished=("a1",))).do is StepAction.WAIT


def test_an_annealer_that_adopts_gives_a_passed_deadline_again_and_keeps_one_that_has_not_passed() -> None:
    record = made(Step.REBOOTING)
    early, late = (adopted(record, "r2", 6, now) for now in (10.0, 5000.0))
    assert (early.run, early.epoch, early.deadline) == ("r2", 6, record.deadline)
    assert late.deadline == 5000.0 + LIMITS[Step.REBOOTING]
    assert late.step is Step.REBOOTING


def test_the_role_may_give_a_step_more_time() -> None:
    assert advanced(made(limits={"rebooting": 7.0}), Step.REBOOTING, 100.0).deadline == 107.0


def test_reports_lead_from_the_identity_to_the_verified_disk_and_repetitions_change_nothing() -> None:
    record = reported(made(Step.IDENTIFIED), InstallerReport(word=ReportKind.FETCHED, percent=40), 1.0)
    assert record.percent == 40
    assert reported(record, InstallerReport(word=ReportKind.FETCHED, percent=30), 1.0).percent == 40
    record = reported(record, InstallerReport(word=ReportKind.WRITTEN), 2.0)
    assert (record.step, record.since) == (Step.WRITTEN, 2.0)
    assert reported(record, InstallerReport(word=ReportKind.WRITTEN), 3.0) is record
    assert reported(record, InstallerReport(word=ReportKind.FETCHED, percent=100), 3.0) is record
    record = reported(record, InstallerReport(word=ReportKind.VERIFIED, checksum=SUM), 4.0)
    assert record.step is Step.VERIFIED
    assert reported(record, InstallerReport(word=ReportKind.VERIFIED, checksum=SUM), 5.0) is record


@pytest.mark.parametrize("step", [Step.CHECKED, Step.PUBLISHED_INSTALL, Step.REBOOTING])
def test_a_report_before_the_identity_is_refused(step: Step) -> None:
    with pytest.raises(Conflict, match="must show its token first"):
        reported(made(step), InstallerReport(word=ReportKind.WRITTEN), 1.0)


def test_a_disk_is_not_verified_before_it_is_written() -> None:
    with pytest.raises(Conflict, match="follows step written"):
        reported(made(Step.IDENTIFIED), InstallerReport(word=ReportKind.VERIFIED, checksum=SUM), 1.0)


def test_another_checksum_and_a_report_of_a_failure_end_the_installation_with_their_sentences() -> None:
    corrupt = reported(made(Step.WRITTEN), InstallerReport(word=ReportKind.VERIFIED, checksum="sha256:b"), 1.0)
    assert corrupt.step is Step.WRITTEN
    assert corrupt.reason == f"step verified: the disk has checksum sha256:b, and the image has {SUM}"
    small = reported(made(Step.IDENTIFIED), InstallerReport(word=ReportKind.FAILED, reason="disk sda has 1 GiB"), 1.0)
    assert small.reason == "step written: the installer reports: disk sda has 1 GiB"
    assert failed(made(), "x" * 5000).reason == "x" * 1000


def test_a_line_of_the_console_is_in_the_reason_and_goes_with_its_step() -> None:
    said = 'its kernel panicked: "Kernel panic - not syncing"'
    late = made(Step.REBOOTING, console=said)
    found = decide(late, outlook(now=LIMITS[Step.REBOOTING] + 1.0, sight={"why": "no route"}))
    assert found.do is StepAction.FAIL
    assert found.text.endswith(f"it does not answer (no route); the console shows that {said}")
    assert advanced(late, Step.IDENTIFIED, 1.0).console is None


def test_an_erasure_and_a_rescue_have_more_time_than_an_installation() -> None:
    hours = {
        purpose: limit(made(purpose=purpose), Step.IDENTIFIED) / 3600.0
        for purpose in (InstallPurpose.INSTALL, InstallPurpose.WIPE, InstallPurpose.RESCUE)
    }
    assert [*hours.values()] == [1.0, 48.0, 168.0]
    assert limit(made(purpose=InstallPurpose.WIPE), Step.REBOOTING) == LIMITS[Step.REBOOTING]


def test_the_results_of_disks_are_bounded_in_number_and_length() -> None:
    record = made(Step.IDENTIFIED, purpose=InstallPurpose.WIPE)
    for number in range(WIPES_KEPT + 3):
        report = InstallerReport(word=ReportKind.WIPED, disk=f"{number} " + "d" * 9000, reason="r" * 9000)
        record = reported(record, report, 5.0)
    assert len(record.wiped) == WIPES_KEPT
    assert record.wiped[-1].disk.startswith(f"{WIPES_KEPT + 2} "), "the newest stay"
    assert (len(record.wiped[0].disk), len(record.wiped[0].reason or "")) == (LONGEST_NAME, LONGEST_NAME)

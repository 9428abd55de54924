"""The steps of an installation: one table from a step and the observations to the next action. Pure.

The rules, in prose:

- A step is written before the work of the next step begins. So a repetition repeats only work that may be repeated.
- The machine boots from the network only after every living server has published the boot environment ``install``. It boots
  from its disk only after every one has published ``local``. No time stands in for that.
- The boot id of the machine is noted before it is told to boot. While it still has that boot, it is told again.
- A machine with a power record is switched off and on, once: the request is part of the transaction of the step.
- A machine that comes back from its disk, under its old host key, is a failure at once: it will not boot the installer.
- So is one that comes back under its old host key after the installation: it boots another disk than the installed one.
- The installation ends when the machine has another boot than before, another than the installer's, and the pinned host key.
- A step that is not done at its deadline is a failure, with the name of the step and the newest observation.

``decide`` gives the action of an annealer. ``advanced``, ``adopted``, ``reported`` and ``failed`` make the next record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import installing
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.installation import DiskWipe, Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.records import WipeMethod

INSTALL: Final = "install"  # the boot environments that an installation sets
RESCUE: Final = "rescue"
LOCAL: Final = "local"
OURS: Final = frozenset({INSTALL, RESCUE})
LONGEST_NAME: Final = 500  # of a disk
LONGEST_TEXT: Final = 1000  # of a reason or an observation, in characters

_FIRST, _LAST = InstallStep.CHECKED, InstallStep.PUBLISHED_LOCAL
#: Seconds from a step to the next one, where the role says nothing else.
LIMITS: Final[Mapping[str, float]] = {
    InstallStep.CHECKED: 900.0,
    InstallStep.PUBLISHED_INSTALL: 600.0,
    InstallStep.REBOOTING: 1200.0,
    InstallStep.IDENTIFIED: 3600.0,
    InstallStep.WRITTEN: 1800.0,
    InstallStep.VERIFIED: 900.0,
    InstallStep.PUBLISHED_LOCAL: 1200.0,
}
_BOOT: Final = (InstallStep.CHECKED, InstallStep.PUBLISHED_INSTALL, InstallStep.REBOOTING, InstallStep.IDENTIFIED)
#: The steps of each purpose, in their order.
PATHS: Final[Mapping[InstallPurpose, tuple[InstallStep, ...]]] = {
    InstallPurpose.INSTALL: (
        *_BOOT, InstallStep.WRITTEN, InstallStep.VERIFIED, InstallStep.PUBLISHED_LOCAL, InstallStep.ALIVE,
    ),
    InstallPurpose.WIPE: (*_BOOT, InstallStep.WIPED, InstallStep.PUBLISHED_LOCAL, InstallStep.RETIRED),
    InstallPurpose.RETIRE: (InstallStep.CHECKED, InstallStep.PUBLISHED_LOCAL, InstallStep.RETIRED),
    InstallPurpose.RESCUE: (*_BOOT, InstallStep.LEAVING, InstallStep.PUBLISHED_LOCAL, InstallStep.ALIVE),
}  # fmt: skip
#: The boot environment that a purpose needs; None: it boots nothing.
BOOTENVS: Final[Mapping[InstallPurpose, str | None]] = {
    InstallPurpose.INSTALL: INSTALL,
    InstallPurpose.WIPE: INSTALL,
    InstallPurpose.RETIRE: None,
    InstallPurpose.RESCUE: RESCUE,
}
#: The steps with which the boot environment becomes ``local`` again.
LEAVES: Final = frozenset({InstallStep.VERIFIED, InstallStep.WIPED, InstallStep.LEAVING})
#: Seconds from ``identified`` to the next step, where a purpose needs more than an installation.
_LONGER: Final[Mapping[InstallPurpose, float]] = {
    InstallPurpose.WIPE: 48 * 3600.0,  # a large disk is overwritten in a day
    InstallPurpose.RESCUE: 7 * 24 * 3600.0,
}
WIPES_KEPT: Final = 256


class StepAction(StrEnum):
    """The action of the annealer that holds the node."""

    WAIT = "WAIT"  # for a change of a record, or for the deadline
    LOOK = "LOOK"  # ask the machine for its boot id, soon
    REBOOT = "REBOOT"  # tell the machine to boot from the network, if it still has the noted boot
    ADVANCE = "ADVANCE"  # write the next step
    FAIL = "FAIL"  # end the run, with the sentence as its reason
    SUCCEED = "SUCCEED"  # end the run: the machine is alive on its new disk


class BootLook(msgspec.Struct, frozen=True, kw_only=True):
    """The newest look at the machine."""

    boot_id: str = ""  # it answered, under the host key that was expected
    fenced: int | None = None  # it obeys an annealer of this later epoch
    another: bool = False  # another host key answers at its address
    former: bool = False  # that of the system before the installation
    why: str = ""  # it did not answer as expected


class StepFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of a decision."""

    unpublished: tuple[str, ...] = ()  # the living servers that have not published the present boot document
    unreached: tuple[str, ...] = ()  # those of them that an annealer does not reach; no other one has agreed yet
    sight: BootLook | None = None  # since the step was written
    power: bool = False  # the machine can be switched without its operating system
    switched: bool = False  # it was switched off and on for this installation
    power_fault: str | None = None  # why it could not be switched
    now: float


class StepDecision(msgspec.Struct, frozen=True, kw_only=True):
    """``text``: the obstacle or the reason, in one sentence; ``boot_id``: to be noted with the next step."""

    do: StepAction
    text: str = ""
    boot_id: str = ""


def decide(installation: Installation, facts: StepFacts) -> StepDecision:
    """The next action. At the deadline everything but an advance or a success is a failure."""
    rule = _OTHERS.get((installation.purpose, installation.step), _RULES[installation.step])
    found = rule(installation, facts)
    if found.do in (StepAction.ADVANCE, StepAction.SUCCEED, StepAction.FAIL) or facts.now < installation.deadline:
        return found
    limit = installation.deadline - installation.since
    awaited = following(installation)
    observed = "; ".join([found.text, *installing.observations(installation)])
    return StepDecision(do=StepAction.FAIL, text=f"step {awaited} was not reached within {limit:.0f} s: {observed}")


def _publishes(bootenv: str) -> Callable[[Installation, StepFacts], StepDecision]:
    def rule(_: Installation, facts: StepFacts) -> StepDecision:
        if facts.unpublished:
            servers = ", ".join(facts.unpublished)
            text = f"boot environment {bootenv} is not published yet by {servers}"
            for name in facts.unreached:
                text += f"; {name} does not answer: if it is off, `node dead {name}`"
            return StepDecision(do=StepAction.WAIT, text=text)
        return StepDecision(do=StepAction.ADVANCE)

    return rule


def _notes_boot(_: Installation, facts: StepFacts) -> StepDecision:
    sight = facts.sight
    if sight is None:
        return StepDecision(do=StepAction.LOOK, text="the machine is asked for its boot id")
    if sight.fenced is not None:
        return StepDecision(do=StepAction.FAIL, text=_fenced(sight.fenced))
    if sight.boot_id:
        return StepDecision(do=StepAction.ADVANCE, boot_id=sight.boot_id)
    if facts.power:
        return StepDecision(do=StepAction.ADVANCE)
    text = f"the machine does not answer ({sight.why}), and it has no power record; start it from the network by hand"
    return StepDecision(do=StepAction.LOOK, text=text)


def _boots(installation: Installation, facts: StepFacts) -> StepDecision:
    sight, before = facts.sight, installation.boot_id
    if facts.power_fault is not None:
        return StepDecision(
            do=StepAction.FAIL, text=f"step {InstallStep.IDENTIFIED}: the machine was not switched: {facts.power_fault}"
        )
    if sight is None:
        return StepDecision(do=StepAction.LOOK, text="it is to boot from the network")
    if sight.fenced is not None:
        return StepDecision(do=StepAction.FAIL, text=_fenced(sight.fenced))
    if sight.boot_id and sight.boot_id == before and installation.power:
        after = "was switched, and still has its former boot: does the BMC belong to it?"
        return StepDecision(do=StepAction.LOOK, text=f"the machine {after if facts.switched else 'is being switched'}")
    if sight.boot_id and sight.boot_id == before:
        return StepDecision(do=StepAction.REBOOT, text="the machine is told to boot, and has not gone down yet")
    if sight.boot_id and before:
        return StepDecision(
            do=StepAction.FAIL,
            text=f"step {InstallStep.IDENTIFIED}: the machine booted from its disk instead of the network: it has boot"
            f" {sight.boot_id} under its old host key; set the network first in its boot order",
        )
    if sight.boot_id:
        return StepDecision(do=StepAction.LOOK, text="the installer has not spoken yet; the former system answers")
    who = "another host key answers at its address" if sight.another else f"it does not answer ({sight.why})"
    return StepDecision(do=StepAction.LOOK, text=f"the installer has not spoken yet; {who}")


def _writes(_: Installation, __: StepFacts) -> StepDecision:
    return StepDecision(do=StepAction.WAIT, text="the installer writes the image")


def _verifies(_: Installation, __: StepFacts) -> StepDecision:
    return StepDecision(do=StepAction.WAIT, text="the installer compares the disk with the checksum of the image")


def _returns(installation: Installation, facts: StepFacts) -> StepDecision:
    sight = facts.sight
    if sight is None:
        return StepDecision(do=StepAction.LOOK, text="it is to boot from its disk")
    if sight.fenced is not None:
        return StepDecision(do=StepAction.FAIL, text=_fenced(sight.fenced))
    if sight.former:
        return StepDecision(
            do=StepAction.FAIL,
            text=f"step {InstallStep.ALIVE}: the system from before the installation answers: the machine booted another disk"
            f" than {installation.disk or 'the installed one'}; set the installed disk first in its boot order",
        )
    if sight.boot_id in ("", installation.boot_id, installation.installer_boot_id):
        text = f"it does not answer ({sight.why})" if not sight.boot_id else "it has not left the installer yet"
        if sight.another:
            text = f"another host key than the pinned one answers at its address ({sight.why})"
        return StepDecision(do=StepAction.LOOK, text=text)
    return StepDecision(do=StepAction.SUCCEED)


def _wipes(_: Installation, __: StepFacts) -> StepDecision:
    return StepDecision(do=StepAction.WAIT, text="the installer erases the disks")


def _rescues(installation: Installation, _: StepFacts) -> StepDecision:
    name = installation.noderole.partition("@")[2]
    return StepDecision(
        do=StepAction.WAIT, text=f"a person works on it; to end that: nodepool-ocb node rescue {name} --end"
    )


def _retires(installation: Installation, facts: StepFacts) -> StepDecision:
    if installation.power and not (facts.switched or facts.power_fault):
        return StepDecision(do=StepAction.WAIT, text="the machine is being switched off")
    return StepDecision(
        do=StepAction.SUCCEED, text=f"not switched off: {facts.power_fault}" if facts.power_fault else ""
    )


def _fenced(epoch: int) -> str:
    return f"the machine obeys an annealer of epoch {epoch}, and this one has an older claim"


_RULES: Final[Mapping[InstallStep, Callable[[Installation, StepFacts], StepDecision]]] = {
    InstallStep.CHECKED: _publishes(INSTALL),
    InstallStep.PUBLISHED_INSTALL: _notes_boot,
    InstallStep.REBOOTING: _boots,
    InstallStep.IDENTIFIED: _writes,
    InstallStep.WRITTEN: _verifies,
    InstallStep.VERIFIED: _publishes(LOCAL),
    InstallStep.PUBLISHED_LOCAL: _returns,
    InstallStep.WIPED: _publishes(LOCAL),
    InstallStep.LEAVING: _publishes(LOCAL),
    InstallStep.ALIVE: lambda _, __: StepDecision(do=StepAction.SUCCEED),
    InstallStep.RETIRED: lambda _, __: StepDecision(do=StepAction.SUCCEED),
}
#: The rules that hold for one purpose alone.
_OTHERS: Final[Mapping[tuple[InstallPurpose, InstallStep], Callable[[Installation, StepFacts], StepDecision]]] = {
    (InstallPurpose.WIPE, InstallStep.IDENTIFIED): _wipes,
    (InstallPurpose.WIPE, InstallStep.PUBLISHED_LOCAL): _retires,
    (InstallPurpose.RETIRE, InstallStep.CHECKED): _publishes(LOCAL),
    (InstallPurpose.RETIRE, InstallStep.PUBLISHED_LOCAL): _retires,
    (InstallPurpose.RESCUE, InstallStep.CHECKED): _publishes(RESCUE),
    (InstallPurpose.RESCUE, InstallStep.IDENTIFIED): _rescues,
}


# -- the next record --


def following(installation: Installation) -> InstallStep:
    """The step after the present one."""
    path = PATHS[installation.purpose]
    return path[min(path.index(installation.step) + 1, len(path) - 1)]


def advanced(installation: Installation, step: InstallStep, now: float, **fields: Any) -> Installation:
    """The record after a step."""
    deadline = now + limit(installation, step)
    fresh = {"waits": None, "evidence": None, "console": None, "requests": None, "percent": 0} | fields
    return replace(installation, step=step, since=now, deadline=deadline, **fresh)


def limit(installation: Installation, step: InstallStep) -> float:
    """The seconds from this step to the next one."""
    usual = LIMITS.get(step, LIMITS[_LAST])
    if step is InstallStep.IDENTIFIED:
        usual = _LONGER.get(installation.purpose, usual)
    return installation.limits.get(step, usual)


def adopted(installation: Installation, run: str, epoch: int, now: float) -> Installation:
    """The record when another annealer continues. A deadline that passed while no annealer was there begins again."""
    over = now >= installation.deadline
    deadline = now + limit(installation, installation.step) if over else installation.deadline
    return replace(installation, run=run, epoch=epoch, deadline=deadline)


def failed(installation: Installation, reason: str) -> Installation:
    """The record of an installation that is over without success."""
    return replace(installation, reason=reason[:LONGEST_TEXT], waits=None)


class ReportKind(StrEnum):
    """The reports of an installer."""

    FETCHED = "fetched"  # it has this much of the image on the disk
    WRITTEN = "written"
    VERIFIED = "verified"  # the disk has the checksum of the order
    WIPED = "wiped"  # one disk has lost its data, or with a reason: it has not
    ERASED = "erased"  # all disks have
    FAILED = "failed"


class InstallerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One report."""

    word: ReportKind
    percent: int = 0
    reason: str = ""
    checksum: str = ""
    disk: str = ""


#: The step at which a report makes the next step, and that step.
_REPORTED: Final[Mapping[ReportKind, tuple[InstallStep, InstallStep]]] = {
    ReportKind.WRITTEN: (InstallStep.IDENTIFIED, InstallStep.WRITTEN),
    ReportKind.VERIFIED: (InstallStep.WRITTEN, InstallStep.VERIFIED),
    ReportKind.ERASED: (InstallStep.IDENTIFIED, InstallStep.WIPED),
}


def _wiped(installation: Installation, report: InstallerReport, now: float) -> Installation:
    """The record with the end of the erasure of a disk; a repetition changes nothing."""
    if any(each.disk == report.disk and each.done is not bool(report.reason) for each in installation.wiped):
        return installation
    method = WipeMethod(installation.order.get("wipe_method", WipeMethod.SIGNATURES))
    reason = report.reason[:LONGEST_NAME] or None
    made = DiskWipe(disk=report.disk[:LONGEST_NAME], method=method, done=reason is None, reason=reason, at=now)
    return replace(installation, wiped=(*installation.wiped, made)[-WIPES_KEPT:])


def reported(installation: Installation, report: InstallerReport, now: float) -> Installation:
    """The record after a report; unchanged if the report repeats an older one.

    Raises Conflict for a report that cannot follow the present step, and for an installer without its order.
    """
    path = PATHS[installation.purpose]
    at = path.index(installation.step)
    if InstallStep.IDENTIFIED not in path[: at + 1]:
        raise Conflict(f"the installation is at step {installation.step}; the installer must show its token first")
    if report.word is ReportKind.FAILED:
        said = report.reason or "the installer gave no reason"
        return failed(installation, f"step {following(installation)}: the installer reports: {said}")
    if report.word is ReportKind.FETCHED:
        percent = max(installation.percent, min(report.percent, 100))
        return replace(installation, percent=percent) if installation.step is InstallStep.IDENTIFIED else installation
    if report.word is ReportKind.WIPED:
        return _wiped(installation, report, now)
    before, after = _REPORTED[report.word]
    if after not in path:
        raise Conflict(f"the machine was booted to {installation.purpose}, and `{report.word}` is no word of that")
    if at >= path.index(after):
        return installation
    if installation.step is not before:
        raise Conflict(f"the installation is at step {installation.step}; `{report.word}` follows step {before}")
    if report.word is ReportKind.ERASED and (left := [each for each in installation.wiped if not each.done]):
        named = "; ".join(f"{each.disk}: {each.reason}" for each in left)
        return failed(installation, f"step {after}: not all disks were erased: {named}")
    if report.word is ReportKind.VERIFIED and report.checksum != installation.checksum:
        return failed(
            installation,
            f"step {after}: the disk has checksum {report.checksum or '(none)'}, and the image has {installation.checksum}",
        )
    return advanced(installation, after, now)

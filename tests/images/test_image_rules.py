"""Images: when a build or an upload is due, what is kept, and what is tidied up, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.images import rules as rules
from nodepool_ocb.images import states
from nodepool_ocb.images.rules import (
    UPLOAD_ATTEMPTS,
    BuildView,
    Carrier,
    Due,
    ImagePolicy,
    ImageView,
    NotDue,
    Paused,
    Requested,
    UploadView,
    due,
    due_uploads,
    fulfilled,
    removable,
    state_shown,
)
from nodepool_ocb.images.tidy import (
    STUCK_SECONDS,
    MarkBuild,
    MarkUpload,
    RemoveBuild,
    RemoveFiles,
    RemoveUpload,
    Step,
    Tidier,
    tidy,
)
from nodepool_ocb.model.images import Build, BuildRequest, BuildState, Pause, Upload, UploadState
from nodepool_ocb.model.records import LockOwner

DAY, MINUTE = 86400.0, 60.0
NOW = 100 * DAY
WANTED = ImagePolicy(formats=("qcow2",), rebuild_age_seconds=DAY)
SOMEBODY = LockOwner(daemon="b9", host="h9", pid=1, purpose="build", since=0.0)


def build(number: int, state: str = "ready", age: float = 0.0, *uploads: UploadView, **fields: Any) -> BuildView:
    known = {"builder": "h1", "builder_id": "b1", "filename": f"f-{number}", "formats": ("qcow2",)}
    unread = frozenset(fields.pop("unread", ()))
    record = Build(**{**known, **fields}, state=BuildState(state), state_time=NOW - age)
    return BuildView(f"{number:010}", record, 0, uploads, unread)


def upload(number: int, provider: str = "p", state: str = "ready", age: float = 0.0, **fields: Any) -> UploadView:
    locked = fields.pop("locked", False)
    known = {"format": "qcow2", "external_id": f"e{number}" if state == "ready" else None}
    record = Upload(**{**known, **fields}, state=UploadState(state), state_time=NOW - age)
    return UploadView(f"{number:010}", provider, "0000000000", record, 0, locked)


def view(*builds: BuildView, request: int | None = None, pause: Pause | None = None, held: bool = False) -> ImageView:
    return ImageView(
        "debian",
        builds,
        SOMEBODY if held else None,
        None if request is None else Requested(BuildRequest(by="ann"), 0, request),
        None if pause is None else Paused(pause, 0),
    )


def failed(number: int, age: float = 0.0, request: int = 0) -> BuildView:
    return build(number, "failed", age, request=request)


# -- builds --


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (view(), "no build is ready"),
        (view(build(1, "delete"), build(2, "aborted"), build(3, "building")), "no build is ready"),
        (view(build(1, age=1.1 * DAY)), "older than 86400 s"),
        (view(build(1), build(2, age=1.1 * DAY)), "older than 86400 s"),  # the newest is that of the highest id
        (view(build(1, formats=("raw",))), "lacks qcow2"),
        (view(build(1, formats=())), "lacks qcow2"),
        (view(build(1), request=7), "ann requested it"),
        (view(build(1), request=7, pause=Pause(until=NOW)), "ann requested it"),
        (view(build(1, age=2 * DAY), held=True), "older than"),  # the lock says whether it can begin, not the rule
    ],
)
def test_a_build_is_due(image: ImageView, reason: str) -> None:
    decision = due(image, WANTED, NOW)
    assert isinstance(decision, Due)
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("image", "reason", "at"),
    [
        (view(pause=Pause(by="bob", reason="broken mirror")), "bob has paused it: broken mirror", None),
        (view(pause=Pause(until=NOW + 5)), "an unknown user has paused it", NOW + 5),
        (view(request=7, pause=Pause()), "an unknown user has paused it", None),
        (view(build(1, age=1.1 * DAY), failed(2)), "failed 1 time in a row", NOW + MINUTE),
        (view(build(1, formats=("raw",)), failed(2)), "failed 1 time", NOW + MINUTE),
    ],
)
def test_a_build_is_not_due(image: ImageView, reason: str, at: float | None) -> None:
    decision = due(image, WANTED, NOW)
    assert isinstance(decision, NotDue)
    assert reason in decision.reason
    assert decision.at == at


def test_a_request_says_who_asked_and_why() -> None:
    asked = replace(view(build(1)), request=Requested(BuildRequest(by="ann", reason="a new kernel"), 0, 7))
    assert due(asked, WANTED, NOW) == Due("ann requested it: a new kernel")
    asked = replace(view(build(1)), request=Requested(BuildRequest(), 0, 7))
    assert due(asked, WANTED, NOW) == Due("an unknown user requested it")


def test_the_configurations_pause_has_no_end_and_holds_requests_too() -> None:
    assert due(view(request=7), ImagePolicy(("qcow2",), DAY, pause=True), NOW) == NotDue("the configuration pauses it")


def test_formats_whose_files_went_are_not_missing() -> None:
    assert isinstance(due(view(build(1, removed=("qcow2",))), WANTED, NOW), NotDue)


def test_a_failing_image_is_tried_at_0_1_3_7_minutes_and_then_once_an_hour() -> None:
    image, now, tried = view(), NOW, []
    for number in range(1, 11):
        decision = due(image, WANTED, now)
        while isinstance(decision, NotDue):
            assert decision.at is not None
            assert isinstance(due(image, WANTED, decision.at - 0.001), NotDue)
            now = decision.at
            decision = due(image, WANTED, now)
        tried.append((now - NOW) / MINUTE)
        image = view(*image.builds, failed(number, NOW - now))
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


@pytest.mark.parametrize("count", [7, 100, 5000])
def test_however_often_it_failed_it_waits_an_hour(count: int) -> None:
    decision = due(view(*(failed(number) for number in range(1, count + 1))), WANTED, NOW)
    assert decision == NotDue(f"it failed {count} times in a row", NOW + 60 * MINUTE)


@pytest.mark.parametrize(
    ("builds", "request_mzxid", "waits"),
    [
        ([failed(1)], 7, False),  # nobody tried for this request yet
        ([failed(1, request=7)], 7, True),
        ([failed(1, request=7)], 8, False),  # somebody asked again
        ([failed(1, request=7), failed(2)], 7, True),
        ([build(1, "aborted", request=7)], 7, False),  # its builder died: that is no failure of the image
        ([failed(1, request=7), build(2, request=7)], 8, False),
        ([build(1, "aborted")], None, False),
        ([failed(1), build(2, age=2 * DAY)], None, False),  # it was ready since
        ([build(1, age=2 * DAY), failed(2)], None, True),
    ],
)
def test_builds_due_after_failures_and_requests(
    builds: list[BuildView], request_mzxid: int | None, waits: bool
) -> None:
    assert isinstance(due(view(*builds, request=request_mzxid), WANTED, NOW), NotDue) is waits


def test_the_rebuild_age_has_a_jitter_of_a_tenth_that_each_builder_draws_for_itself() -> None:
    builders = [replace(WANTED, builder_id=id) for id in ("b1", "b2")]
    drawn = {
        (name, n, wanted.builder_id): rules.rebuild_at(name, build(n), wanted, NOW)
        for name in map(str, range(200))
        for n in (1, 2)
        for wanted in builders
    }
    assert all(NOW + DAY <= at <= NOW + 1.1 * DAY for at in drawn.values())
    assert drawn[("7", 1, "b1")] == rules.rebuild_at("7", build(1), builders[0], NOW), "whenever it is asked"
    assert len(set(drawn.values())) == len(drawn), "images differ, the builds of one, and the builders of one"
    tenths = [int((at - NOW - DAY) / DAY * 100) for at in drawn.values()]
    assert all(50 <= tenths.count(tenth) <= 110 for tenth in range(10)), tenths  # 80 each, spread evenly
    image = view(build(1))
    at = rules.rebuild_at("debian", build(1), WANTED, NOW)
    assert due(image, WANTED, at - 1) == NotDue("the newest ready build is young enough", at)
    assert isinstance(due(image, WANTED, at), Due)


def test_without_a_spread_a_build_begins_at_the_exact_rebuild_age() -> None:
    exact = replace(WANTED, rebuild_spread=0.0)
    assert {rules.rebuild_at(name, build(1), exact, NOW) for name in map(str, range(50))} == {NOW + DAY}
    half = replace(WANTED, rebuild_spread=0.5)
    drawn = [rules.rebuild_at(name, build(1), half, NOW) for name in map(str, range(200))]
    assert NOW + 1.4 * DAY < max(drawn) <= NOW + 1.5 * DAY


# -- clocks that were wrong --

AHEAD = -3650 * DAY  # as an age: written under a clock ten years ahead


def test_a_time_in_the_future_holds_nothing_back() -> None:
    assert isinstance(due(view(build(1, age=AHEAD)), WANTED, NOW), Due)
    assert isinstance(due(view(failed(1, AHEAD)), WANTED, NOW), Due)
    assert sent(view(build(1, "ready", 0.0, upload(1, state="failed", age=AHEAD)))) == ([("1", "p", "failed")], None)
    for state in ("failed", "aborted", "delete"):
        assert sentences(tidy(view(build(1, state, AHEAD)), SURVIVOR, NOW)) == ["remove 1"]
    last = upload(1, "p", "failed", AHEAD, attempt=UPLOAD_ATTEMPTS)
    assert sentences(tidy(view(build(1, "ready", 0.0, last)), OURS, NOW)) == ["1@p → delete"]


def test_a_step_between_two_leaders_clocks_is_no_future() -> None:
    assert isinstance(due(view(build(1, age=-30.0)), WANTED, NOW), NotDue)
    assert isinstance(due(view(failed(1, -30.0)), WANTED, NOW), NotDue)


# -- builders that differ, or are gone --

A, B, C = (("qcow2",), ("raw",), ("vhd", "raw"))


def test_builders_whose_formats_differ_build_once_each_and_then_rest() -> None:
    """Three builders with formats of their own, and keep at one: each builds, tidies up, and looks again, for days."""
    image, begun = view(), []
    for round in range(6):
        for name, formats in (("b1", A), ("b2", B), ("b3", C)):
            if isinstance(due(image, ImagePolicy(formats, rebuild_age_seconds=DAY, keep=1), NOW), Due):
                begun.append((round, name))
                number = len(begun)
                image = view(*image.builds, build(number, builder_id=name, formats=formats))
            tidier = Tidier(name, keep=1, living=frozenset({"b1", "b2", "b3"}), formats=formats)
            steps = [step for step in tidy(image, tidier, NOW) if isinstance(step, MarkBuild)]
            gone = {step.build.id for step in steps}
            image = view(*(each for each in image.builds if each.id not in gone))
    assert begun == [(0, "b1"), (0, "b2"), (0, "b3")]


@pytest.mark.parametrize(
    ("tidier", "expected"),
    [
        (Tidier("b1", keep=1, formats=B, living=frozenset({"b1", "b2"})), ["1 → delete"]),  # its own, and not wanted
        (Tidier("b2", keep=1, formats=B, living=frozenset({"b1", "b2"})), []),  # another's, who may want it
        (Tidier("b2", keep=1, formats=B), []),  # its builder may be back in a moment
        (Tidier("b2", keep=1, formats=B, gone=frozenset({"b1"})), ["1 → delete"]),
        (Tidier("b1", keep=1, formats=A, living=frozenset({"b1", "b2"})), []),
    ],
)
def test_a_build_in_formats_of_its_own_is_for_its_builder_to_judge(tidier: Tidier, expected: list[str]) -> None:
    image = view(build(1, formats=A), build(2, builder_id="b2", formats=B))
    assert sentences(tidy(image, tidier, NOW)) == expected


def test_a_provider_gets_the_newest_build_that_has_its_format_and_nothing_older_than_it_has() -> None:
    old, new = build(1, formats=A), build(2, formats=B)
    assert sent(view(old, new)) == ([("1", "p", None), ("2", "q", None)], None)
    there = build(2, "ready", 0.0, upload(2, "p", format="raw"), formats=B)
    assert sent(view(old, there)) == ([("2", "q", None)], None)


def test_a_failed_upload_of_the_newest_build_in_its_format_waits_for_its_next_attempt() -> None:
    old = build(1, "ready", 0.0, upload(1, "p", "failed", 9 * DAY), formats=A)
    assert sentences(tidy(view(old, build(2, formats=B)), OURS, NOW)) == []


ALL = {"p": Carrier("qcow2"), "q": Carrier("qcow2")}


@pytest.mark.parametrize(
    ("carriers", "uploads", "gone", "expected"),
    [
        (ALL, [upload(1, "p")], True, True),  # q would never get it
        (ALL, [upload(1, "p")], False, False),  # its builder is there, or was a moment ago
        (ALL, [upload(1, "p"), upload(1, "q")], True, False),  # nobody needs its files any more
        (ALL, [upload(1, "p"), upload(1, "q", "failed")], True, True),
        ({"p": Carrier("qcow2", pause=True)}, [], True, False),
        ({}, [], True, True),  # it is made for its files
    ],
)
def test_what_only_a_builder_that_is_gone_could_send_is_built_anew(
    carriers: dict[str, Carrier], uploads: list[UploadView], gone: bool, expected: bool
) -> None:
    wanted = ImagePolicy(("qcow2",), DAY, carriers=carriers, gone=frozenset({"b1"} if gone else ()))
    assert isinstance(due(view(build(1, "ready", 0.0, *uploads)), wanted, NOW), Due) is expected


@pytest.mark.parametrize(
    ("flag", "began_with", "expected"), [(7, 7, True), (8, 7, False), (7, 0, False), (None, 7, False)]
)
def test_a_build_fulfils_the_request_that_stood_there_when_it_began(
    flag: int | None, began_with: int, expected: bool
) -> None:
    assert fulfilled(view(request=flag), build(1, request=began_with).record) is expected


@pytest.mark.parametrize("state", list(BuildState))
@pytest.mark.parametrize("held", [True, False])
def test_only_a_dead_builders_build_is_shown_as_another_state(state: BuildState, held: bool) -> None:
    shown = state_shown(build(1, state), SOMEBODY if held else None)
    assert shown is (BuildState.ABORTED if state is BuildState.BUILDING and not held else state)


# -- uploads --

CARRIERS = {"p": Carrier("qcow2"), "q": Carrier("raw"), "r": Carrier("qcow2", pause=True)}


def sent(
    image: ImageView, now: float = NOW, builder: str = "b1"
) -> tuple[list[tuple[str, str, str | None]], float | None]:
    found, at = due_uploads(image, CARRIERS, builder, now, MINUTE)
    return [(each.build.id[-1], each.provider, each.upload and each.upload.record.state) for each in found], at


BOTH = {"formats": ("qcow2", "raw")}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (view(), ([], None)),
        (view(build(1)), ([("1", "p", None)], None)),  # the format that q takes is not there, and r is paused
        (view(build(1, **BOTH)), ([("1", "p", None), ("1", "q", None)], None)),
        (view(build(1, **BOTH, removed=("raw",))), ([("1", "p", None)], None)),
        (view(build(1), build(2)), ([("2", "p", None)], None)),
        (view(build(1), build(2, builder_id="b2")), ([], None)),  # its builder has the files
        (view(build(1), build(2, "building"), build(3, "failed")), ([("1", "p", None)], None)),
        (view(build(1, "ready", 0.0, upload(1))), ([], None)),
        (view(build(1, "ready", 0.0, upload(1, state="uploading"))), ([], None)),
        (view(build(1, "ready", 0.0, upload(1, state="delete"))), ([], None)),
        (view(build(1, "ready", 0.0, upload(1, state="failed", age=59.0))), ([], NOW + 1)),
        (view(build(1, "ready", 0.0, upload(1, state="failed", age=60.0))), ([("1", "p", "failed")], None)),
        (view(build(1, "ready", 0.0, upload(1, state="failed", age=60.0, attempt=2))), ([], NOW + 60)),
        (view(build(1, "ready", 0.0, upload(1, state="failed", age=DAY, attempt=UPLOAD_ATTEMPTS))), ([], None)),
        (view(build(1, "ready", 0.0, upload(1), upload(1, state="failed", age=60.0))), ([], None)),  # it is there
        (view(build(1, unread=("p",))), ([], None)),
        (view(build(1, "ready", 0.0, upload(1, "q"), **BOTH)), ([("1", "p", None)], None)),
    ],
)
def test_what_is_to_be_sent(image: ImageView, expected: Any) -> None:
    assert sent(image) == expected


def test_the_last_attempt_of_an_upload_is_two_hours_after_the_first() -> None:
    image, now, tried = view(build(1)), NOW, []
    for attempt in range(1, 20):
        found, at = sent(image, now)
        if not found and at is None:
            break
        now = max(now, at or 0.0)
        assert sent(image, now)[0]
        tried.append((now - NOW) / MINUTE)
        image = view(build(1, "ready", 0.0, upload(1, state="failed", age=NOW - now, attempt=attempt)))
    assert tried == [0, 1, 3, 7, 15, 31, 63, 123]


@pytest.mark.parametrize(
    ("uploads", "carriers", "kept", "expected"),
    [
        ([], {}, (), ()),  # where nobody wants it, it was built for its files
        ([], {"p": Carrier("qcow2")}, (), ()),
        ([upload(1)], {"p": Carrier("qcow2")}, (), ("qcow2", "raw")),
        ([upload(1)], {"p": Carrier("qcow2")}, ("raw",), ("qcow2",)),
        ([upload(1, state="failed")], {"p": Carrier("qcow2")}, (), ()),
        ([upload(1, state="uploading")], {"p": Carrier("qcow2")}, (), ()),
        ([upload(1)], {"p": Carrier("qcow2"), "q": Carrier("raw")}, (), ("qcow2",)),  # each format by itself
        ([upload(1)], {"p": Carrier("qcow2"), "q": Carrier("qcow2")}, (), ()),
        ([upload(1)], {"p": Carrier("qcow2"), "q": Carrier("vhd")}, (), ("qcow2",)),  # raw, of nobody, goes last
        ([upload(1), upload(1, "q")], {"p": Carrier("qcow2"), "q": Carrier("raw")}, (), ("qcow2", "raw")),
        ([upload(1)], {"p": Carrier("qcow2"), "q": Carrier("raw", pause=True)}, ("raw", "vhd"), ("qcow2",)),
    ],
)
def test_which_files_may_go(
    uploads: list[UploadView], carriers: dict[str, Carrier], kept: Iterable[str], expected: tuple[str, ...]
) -> None:
    assert removable(build(1, "ready", 0.0, *uploads, **BOTH), carriers, kept) == expected


def test_files_that_went_do_not_go_twice() -> None:
    one = build(1, "ready", 0.0, upload(1), **BOTH, removed=("raw",))
    assert removable(one, {"p": Carrier("qcow2")}, ()) == ("qcow2",)


# -- tidying up --

P = frozenset({"p"})
OURS = Tidier("b1", carriers=P, providers=P, living=frozenset({"b1", "b2"}))
OTHERS = Tidier("b2", carriers=P, providers=P, living=frozenset({"b1", "b2"}))
SURVIVOR = Tidier("b2", carriers=P, providers=P, living=frozenset({"b2"}))
UNCONFIGURED = Tidier("b1", configured=False, providers=P, living=frozenset({"b1"}))


def sentences(steps: Iterable[Step]) -> list[str]:
    """Steps as words, so that a table of them can be read."""
    said = []
    for step in steps:
        match step:
            case MarkBuild(build, event, reason):
                assert reason
                said.append(f"{build.id.lstrip('0')} → {states.BUILDS.to(build.record.state, event)}")
            case MarkUpload(upload, event, reason):
                assert reason
                number = f"{upload.build}@{upload.provider}".lstrip("0")
                said.append(f"{number} → {states.UPLOADS.to(upload.record.state, event)}")
            case RemoveBuild(build):
                said.append(f"remove {build.id.lstrip('0')}")
            case RemoveFiles(build):
                said.append(f"remove files of {build.id.lstrip('0')}")
            case RemoveUpload(upload):
                said.append(f"remove {upload.build.lstrip('0')}@{upload.provider}")
    return said


# state → what the tidiers do about one build without uploads, when it is young and when it is older than is kept:
#                         ours,            theirs,           the builder is gone
BUILDS: dict[tuple[str, float], tuple[list[str], list[str], list[str]]] = {
    ("building", 0.0): (["1 → aborted"], ["1 → aborted"], ["1 → aborted"]),
    ("building", DAY): (["1 → aborted"], ["1 → aborted"], ["1 → aborted"]),
    ("ready", 0.0): ([], [], []),
    ("ready", DAY): ([], [], []),
    ("failed", 0.0): ([], [], []),
    ("failed", DAY - 1): ([], [], []),
    ("failed", DAY): (["remove 1"], [], ["remove 1"]),
    ("aborted", 0.0): (["remove 1"], [], []),
    ("aborted", DAY): (["remove 1"], [], ["remove 1"]),
    ("delete", 0.0): (["remove 1"], [], []),
    ("delete", DAY): (["remove 1"], [], ["remove 1"]),
}


@pytest.mark.parametrize(("case", "expected"), BUILDS.items())
def test_cleanup_of_a_build_by_state_and_age(case: tuple[str, float], expected: tuple[list[str], ...]) -> None:
    image = view(build(1, *case))
    assert tuple(sentences(tidy(image, tidier, NOW)) for tidier in (OURS, OTHERS, SURVIVOR)) == expected


def test_a_failed_upload_goes_after_its_time_if_another_brought_the_build_there() -> None:
    ready, failed = upload(1, "p"), upload(1, "p", "failed", DAY)
    assert sentences(tidy(view(build(1, "ready", 0.0, ready, failed)), OURS, NOW)) == ["1@p → delete"]
    assert sentences(tidy(view(build(1, "ready", 0.0, failed)), OURS, NOW)) == [], "it will be tried again"


@pytest.mark.parametrize("state", list(BuildState))
@pytest.mark.parametrize("age", [0.0, 2 * DAY])
@pytest.mark.parametrize("uploaded", ["ready", "uploading"])
def test_a_build_with_uploads_is_never_removed(state: BuildState, age: float, uploaded: str) -> None:
    for image in (
        view(build(1, state, age, upload(1, "elsewhere", uploaded))),
        view(build(1, state, age, unread=("x",))),
    ):
        for tidier in (OURS, OTHERS, SURVIVOR, UNCONFIGURED):
            assert "remove 1" not in sentences(tidy(image, tidier, NOW))
            assert "1 → delete" not in sentences(tidy(image, tidier, NOW))


@pytest.mark.parametrize(
    ("old", "tidier", "expected"),
    [
        # nobody can delete its upload: it is given up all the same, and then its files go, and not twice
        (
            build(1, "ready", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e")),
            OURS,
            ["1 → delete", "remove 1@p"],
        ),
        (
            build(1, "delete", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e")),
            OURS,
            ["remove files of 1", "remove 1@p"],
        ),
        (
            build(1, "delete", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e"), removed=("qcow2",)),
            OURS,
            ["remove 1@p"],
        ),
        (build(1, "delete", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e")), OTHERS, ["remove 1@p"]),
        (build(1, "ready", 0.0, upload(1, "p", "delete", STUCK_SECONDS - 1, external_id="e")), OURS, ["remove 1@p"]),
        # something of it is still wanted, under way, or not known
        (
            build(1, "ready", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e"), upload(1, "q")),
            OURS,
            ["remove 1@p"],
        ),
        (build(1, "delete", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e", locked=True)), OURS, []),
        (
            build(1, "delete", 0.0, upload(1, "p", "delete", STUCK_SECONDS, external_id="e"), unread=("q",)),
            OURS,
            ["remove 1@p"],
        ),
    ],
)
def test_files_go_though_a_provider_refuses_to_delete_an_upload(
    old: BuildView, tidier: Tidier, expected: list[str]
) -> None:
    assert sentences(tidy(view(old, build(2), build(3)), tidier, NOW)) == expected


@pytest.mark.parametrize("state", list(BuildState))
def test_builds_in_work_are_left_alone(state: BuildState) -> None:
    ours = Tidier("b1", working=frozenset({"0000000001"}), living=frozenset({"b1"}))
    assert sentences(tidy(view(build(1, state, 2 * DAY)), ours, NOW)) == []


@pytest.mark.parametrize("tidier", [OURS, OTHERS, SURVIVOR])
def test_what_somebody_builds_is_left_alone(tidier: Tidier) -> None:
    assert sentences(tidy(view(build(1, "building", 2 * DAY), held=True), tidier, NOW)) == []


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (0, ["1 → delete", "2 → delete", "4 → delete"]),  # one is always kept
        (1, ["1 → delete", "2 → delete", "4 → delete"]),
        (2, ["1 → delete", "2 → delete"]),
        (3, ["1 → delete"]),
        (9, []),
    ],
)
@pytest.mark.parametrize("builder", ["b1", "b2"])
def test_the_newest_ready_builds_are_kept(keep: int, expected: list[str], builder: str) -> None:
    image = view(build(1), build(2), failed(3), build(4), build(5, builder_id="b3"), build(6, "building"), held=True)
    tidier = Tidier(builder, keep=keep, living=frozenset({"b1", "b2", "b3"}))
    assert sentences(tidy(image, tidier, NOW)) == expected


@pytest.mark.parametrize(
    ("tidier", "expected"), [(UNCONFIGURED, ["1 → delete", "2 → delete"]), (Tidier("b2", configured=False), [])]
)
def test_an_image_that_is_not_configured_any_more_is_given_up_by_who_built_it(
    tidier: Tidier, expected: list[str]
) -> None:
    assert sentences(tidy(view(build(1), build(2)), tidier, NOW)) == expected


# state of the upload → what is done, for its build ready and for its build to be deleted
UPLOADS: dict[tuple[str, float, bool], tuple[list[str], list[str]]] = {
    ("uploading", 0.0, True): ([], []),
    ("uploading", 0.0, False): (["1@p → failed"], ["1@p → delete"]),
    ("ready", 0.0, False): ([], ["1@p → delete"]),
    ("ready", 0.0, True): ([], []),
    ("ready", 2 * DAY, False): ([], ["1@p → delete"]),
    ("failed", 0.0, False): ([], ["1@p → delete"]),
    ("failed", 2 * DAY, True): ([], []),
    ("delete", 0.0, True): ([], []),
    ("delete", 0.0, False): (["remove 1@p"], ["remove 1@p"]),
}


@pytest.mark.parametrize(("case", "expected"), UPLOADS.items())
@pytest.mark.parametrize("tidier", [OURS, OTHERS, SURVIVOR])
def test_cleanup_of_an_upload_by_state_and_age(
    case: tuple[str, float, bool], expected: tuple[list[str], ...], tidier: Tidier
) -> None:
    state, age, locked = case
    one = upload(1, "p", state, age, locked=locked, external_id="e")
    images = (view(build(1, "ready", 0.0, one)), view(build(1, "delete", 0.0, one)))
    assert tuple(sentences(tidy(image, tidier, NOW)) for image in images) == expected


@pytest.mark.parametrize(
    ("attempt", "newer", "age", "expected"),
    [
        (1, False, 9 * DAY, []),  # it is tried again, and its record counts the attempts
        (UPLOAD_ATTEMPTS, False, DAY - 1, []),
        (UPLOAD_ATTEMPTS, False, DAY, ["1@p → delete"]),
        (1, True, DAY - 1, []),
        (1, True, DAY, ["1@p → delete"]),
    ],
)
def test_a_failed_upload_is_kept_to_be_read(attempt: int, newer: bool, age: float, expected: list[str]) -> None:
    builds = [build(1, "ready", 0.0, upload(1, "p", "failed", age, attempt=attempt)), *[build(2)] * newer]
    assert sentences(tidy(view(*builds), OURS, NOW)) == expected


def test_a_failed_upload_waits_for_its_next_attempt_beside_older_ones_that_are_ready() -> None:
    image = view(build(1, "ready", 0.0, upload(1)), build(2, "ready", 0.0, upload(2, "p", "failed", 9 * DAY)))
    assert sentences(tidy(image, OURS, NOW)) == []


def test_what_goes_with_its_build_does_not_count_as_kept() -> None:
    builds = [build(n, state, 0.0, upload(n)) for n, state in ((1, "ready"), (2, "ready"), (3, "delete"))]
    assert sentences(tidy(view(*builds), OURS, NOW)) == ["3@p → delete"]


@pytest.mark.parametrize(
    ("external_id", "providers", "expected"),
    [("e", P, ["remove 1@p"]), ("e", frozenset(), []), (None, P, ["remove 1@p"]), (None, frozenset(), ["remove 1@p"])],
)
def test_an_upload_is_removed_by_who_can_reach_its_provider(
    external_id: str | None, providers: frozenset[str], expected: list[str]
) -> None:
    image = view(build(1, "ready", 0.0, upload(1, "p", "delete", external_id=external_id)))
    assert sentences(tidy(image, Tidier("b2", providers=providers), NOW)) == expected


def test_where_a_new_build_cannot_be_sent_the_old_ones_stay() -> None:
    old = [build(n, "ready", 0.0, upload(n, "p"), upload(n, "q")) for n in (1, 2, 3)]
    new = [build(n, "ready", 0.0, upload(n, "p"), upload(n, "q", "failed")) for n in (4, 5)]
    both = frozenset({"p", "q"})
    tidier = Tidier("b1", carriers=both, providers=both)
    assert sentences(tidy(view(*old, *new), tidier, NOW)) == [
        "1@p → delete",
        "1@q → delete",
        "2@p → delete",
        "3@p → delete",
    ]


@pytest.mark.parametrize(("tidier", "expected"), [("b1", ["1@p → delete"]), ("b2", [])])
def test_what_a_provider_is_not_to_have_any_more_is_deleted_there(tidier: str, expected: list[str]) -> None:
    image = view(build(1, "ready", 0.0, upload(1, "p")))
    assert sentences(tidy(image, Tidier(tidier, providers=P), NOW)) == expected
    assert sentences(tidy(image, Tidier(tidier), NOW)) == []  # it may be another's provider


def test_the_story_of_an_image_that_is_built_three_times() -> None:
    """Each line is a view, and what is done about it."""
    one = build(1, "ready", 0.0, upload(1))
    two = build(2, "ready", 0.0, upload(2))
    three = build(3, "ready", 0.0, upload(3))
    gone = upload(1, state="delete", external_id="e1")
    story = [
        ([one, two], []),
        ([one, two, build(3, "ready", 0.0)], []),  # it is not sent yet, so the first stays where it is
        ([one, two, build(3, "ready", 0.0, upload(3, state="uploading", locked=True))], []),
        ([one, two, three], ["1@p → delete"]),
        ([build(1, "ready", 0.0, gone), two, three], ["remove 1@p"]),
        ([build(1), two, three], ["1 → delete"]),
        ([build(1, "delete"), two, three], ["remove 1"]),
        ([two, three], []),
    ]
    for builds, expected in story:
        assert sentences(tidy(view(*builds), OURS, NOW)) == expected


def test_a_file_that_spoiled_takes_nothing_from_those_who_have_the_image() -> None:
    """Ready once, sent to p, found spoiled before it was sent to q: failed, but p launches from it."""
    spoiled = build(2, "failed", 2 * DAY, upload(2, "p"))
    assert sentences(tidy(view(build(1), spoiled), OURS, NOW)) == []
    newer = [build(n, "ready", 0.0, upload(n, "p")) for n in (3, 4)]
    assert "2@p → delete" in sentences(tidy(view(spoiled, *newer), OURS, NOW))

"""Stories of builders: real processes and a real server; builds, uploads, requests, deaths, freezes, cuts and ends."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, Pause, UploadState
from nodepool_ocb.model.records import Create, Set
from tests.builder.fleet_of_builders import SESSION_SECONDS, BuilderFleet, spoiled


def test_one_of_two_builders_builds_a_missing_image_once_and_uploads_it(builders: BuilderFleet) -> None:
    image, provider = (
        builders.image("jammy", 0.3, ("raw", "qcow2")),
        builders.provider("cloud", "jammy", format="qcow2"),
    )
    for _ in range(2):
        builders.builder(image, providers=[provider]).start()
    (build,) = builders.until_ready("jammy")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the build is uploaded")
    assert builders.history() == [f"jammy {build.id}"], "one build only"
    assert build.record.formats == ("qcow2", "raw")
    assert not spoiled(builders)
    (upload,) = builders.builds("jammy")[0].uploads
    assert builders.provided("cloud") == [f"jammy-{build.id}-{upload.id}-cloud-{upload.record.key}.qcow2"]
    assert builders.view("jammy").holder is None, "the lock is free"


def test_the_znodes_are_those_of_the_seed(builders: BuilderFleet) -> None:
    builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")]).start()
    (build,) = builders.until_ready("jammy")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the build is uploaded")
    session, base = builders.session, f"/nodepool/image/jammy/builds/{build.id}"
    assert session.children("/nodepool/image/jammy") == ["builds"]
    assert sorted(session.children("/nodepool/image/jammy/builds") or ()) == [build.id, "lock"]
    id, lock = sorted(session.children(f"{base}/provider/cloud/images") or ())
    assert (len(id), id.isdigit(), lock) == (10, True, "lock")
    record = json.loads(session.get(base).data)  # type: ignore[union-attr]
    assert record["state"] == "ready"
    assert record["filename"] == f"jammy-{build.id}"
    assert record.keys() >= {"builder", "filename", "state", "state_time"}
    upload = json.loads(session.get(f"{base}/provider/cloud/images/{id}").data)  # type: ignore[union-attr]
    assert (upload["state"], upload["external_id"]) == ("ready", f"jammy-{build.id}-{id}-cloud-{upload['key']}.raw")
    assert upload.keys() >= {"external_id", "state", "state_time"}


def test_a_request_leads_to_one_more_build_and_is_gone_then(builders: BuilderFleet) -> None:
    for _ in range(2):
        builders.builder(builders.image("jammy", 0.3)).start()
    builders.until_ready("jammy")
    builders.request("jammy")
    builders.until_ready("jammy", 2)
    assert builders.view("jammy").request is None
    assert len(builders.history()) == 2


def test_a_request_during_a_build_asks_for_the_next_one(builders: BuilderFleet) -> None:
    builders.builder(builders.image("jammy", 1.0)).start()
    builders.until(lambda: builders.history(), "it is being built")
    builders.request("jammy")
    builders.until_ready("jammy", 2)
    assert builders.view("jammy").request is None
    assert len(builders.history()) == 2


@pytest.mark.long
def test_a_failing_image_is_tried_again_after_longer_and_longer_times_with_every_log_kept(
    builders: BuilderFleet,
) -> None:
    builders.fail.touch()
    builder = builders.builder(builders.image("jammy"), retry_seconds=0.4).start()
    builders.until(lambda: len(builders.builds("jammy", BuildState.FAILED)) >= 4, "it has failed four times")
    failed = [build.record for build in builders.builds("jammy", BuildState.FAILED)][:4]
    gaps = [later.started - earlier.state_time for earlier, later in pairwise(failed)]
    assert all(gap >= expected for gap, expected in zip(gaps, (0.4, 0.8, 1.6), strict=True)), gaps
    assert all(gap < 3 * expected + 1 for gap, expected in zip(gaps, (0.4, 0.8, 1.6), strict=True)), gaps
    assert all("as it was asked to" in (record.tail or "") for record in failed)
    first, log = failed[0].reason, "exit status 3; see: nodepool-ocb image log jammy"
    assert (first or "").startswith(log), first
    assert all((builder.images / "builds" / f"{record.filename}.log").exists() for record in failed)
    builders.fail.unlink()
    builders.until_ready("jammy")


def test_the_two_newest_builds_are_kept_and_older_ones_go_with_uploads_and_files(builders: BuilderFleet) -> None:
    provider = builders.provider("cloud", "jammy")
    builder = builders.builder(builders.image("jammy"), providers=[provider]).start()
    for count in range(1, 5):
        builders.until(lambda: len(builders.history("end")) >= count, f"build {count}")  # noqa: B023
        builders.until(lambda: builders.view("jammy").request is None, "the request is fulfilled")
        newest = builders.until_ready("jammy")[0].id
        builders.until(lambda: (newest, "cloud") in builders.uploads("jammy", UploadState.READY), "it is uploaded")  # noqa: B023
        if count < 4:
            builders.request("jammy")
    builders.until(lambda: len(builders.builds("jammy")) == 2, "two builds are left")
    builders.until(lambda: len(builders.provided("cloud")) == 2, "two uploads are left")
    kept = [build.id for build in builders.builds("jammy")]
    assert {name.partition(".")[0] for name in builder.files()} == {f"jammy-{id}" for id in kept}
    assert {name[:16] for name in builders.provided("cloud")} == {f"jammy-{id}" for id in kept}


def test_setting_a_build_to_delete_deletes_it_everywhere_and_another_is_built(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")]).start()
    (build,) = builders.until_ready("jammy")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded")
    view = builders.view("jammy").build(build.id)
    assert view is not None
    path, record = paths.build("jammy", build.id), json.loads(builders.session.get(paths.build("jammy", build.id)).data)  # type: ignore[union-attr]
    builders.session.commit([Set(path, {**record, "state": "delete"}, view.version)])
    builders.until(lambda: builders.view("jammy").build(build.id) is None, "it is gone")
    (other,) = builders.until_ready("jammy")
    assert other.id > build.id
    builders.until(
        lambda: [name[:16] for name in builders.provided("cloud")] == [f"jammy-{other.id}"], "its upload too"
    )
    builders.until(lambda: not any(build.id in name for name in builder.files()), "and its files")


def test_a_paused_image_is_not_built_until_the_pause_ends(builders: BuilderFleet) -> None:
    builders.session.ensure(paths.image("jammy"))
    pause = Pause(by="test", at=time.time(), until=time.time() + 3.0)
    builders.session.commit([Create(paths.pause("jammy"), pause)])
    builders.builder(builders.image("jammy"), builders.image("noble")).start()
    builders.until_ready("noble")
    builders.until_ready("jammy")
    assert builders.builds("jammy")[0].record.started >= pause.until  # type: ignore[operator]


def test_a_killed_builder_is_replaced_at_once_and_tidies_up_when_it_is_back(builders: BuilderFleet) -> None:
    image = builders.image("jammy", 4.0)
    first = builders.builder(image).start()
    builders.until(lambda: builders.history(), "it is being built")
    (doomed,) = builders.builds("jammy", BuildState.BUILDING)
    second = builders.builder(image).start()
    killed = time.monotonic()
    first.kill()
    builders.until(
        lambda: builders.view("jammy").build(doomed.id).record.state is BuildState.ABORTED,  # type: ignore[union-attr]
        "the dead build is not shown as building",
        SESSION_SECONDS + 2,
    )
    builders.until(
        lambda: len(builders.history()) == 2, "another has begun", killed + 5 + SESSION_SECONDS - time.monotonic()
    )
    assert not list(Path("/proc").glob(f"*/root{first.images}/*.build")), "nobody works there"
    (ready,) = builders.until_ready("jammy")
    assert ready.record.builder_id == second.id
    assert builders.view("jammy").build(doomed.id) is not None, "its record waits for its builder"
    first.start()
    builders.until(lambda: builders.view("jammy").build(doomed.id) is None, "its record is gone")
    assert not [name for name in first.files() if doomed.id in name]


def test_a_session_lost_while_a_build_ends_costs_nothing_if_nobody_took_over(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy", 2.0)).start()
    builders.until(lambda: builders.history(), "it is being built")
    builder.proxy.cut()
    builders.until(lambda: builders.history("end"), "it has been built")
    builders.until(lambda: builders.view("jammy").holder is None, "its session is over")
    builder.proxy.heal()
    builders.until_ready("jammy")
    assert len(builders.history()) == 1
    assert not spoiled(builders)


def test_a_builder_that_was_frozen_gives_way_to_the_one_that_took_over(builders: BuilderFleet) -> None:
    image = builders.image("jammy", 3.0)
    first = builders.builder(image).start()
    builders.until(lambda: builders.history(), "it is being built")
    second = builders.builder(image).start()
    first.freeze()
    builders.until(lambda: len(builders.history()) == 2, "another has begun")
    builders.until_ready("jammy")
    first.thaw()
    builders.until(lambda: len(builders.builds("jammy")) == 1, "the first has given up")
    (build,) = builders.until_ready("jammy")
    assert build.record.builder_id == second.id
    builders.until(lambda: not first.files(), "and has left nothing")
    assert first.running()


def test_sigterm_ends_a_build_within_its_time_and_leaves_nothing(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy", 60.0), drain_seconds=0.5).start()
    builders.until(lambda: builders.history(), "it is being built")
    began = time.monotonic()
    builder.terminate()
    assert builder.wait() == 0
    assert time.monotonic() - began < 10.0
    assert not builders.builds("jammy")
    assert not builder.files()
    assert builders.view("jammy").holder is None


def test_an_upload_that_fails_is_tried_again(builders: BuilderFleet) -> None:
    obstacle = builders.folder / "providers" / "cloud"
    obstacle.parent.mkdir()
    obstacle.touch()  # a file where the provider wants a directory
    builders.builder(builders.image("jammy"), providers=[builders.provider("cloud", "jammy")]).start()
    builders.until(lambda: builders.uploads("jammy", UploadState.FAILED), "the upload fails")
    obstacle.unlink()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "the upload is well at last")
    ((build,),) = [builders.builds("jammy")]
    assert len(build.uploads) == 1
    assert build.uploads[0].record.attempt > 1


def test_files_without_a_record_go_after_a_grace_time_and_strange_files_stay(builders: BuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"))
    builder.images.mkdir()
    for name in ("jammy-0000000077.raw", "jammy-0000000077.new.raw", "notes.txt", "jammy.raw"):
        (builder.images / name).write_text("x")
    (builder.images / "jammy-0000000077.d").mkdir()
    builder.start()
    builders.until_ready("jammy")
    builders.until(lambda: not any("77" in name for name in builder.files()), "what has no record is gone")
    assert {"notes.txt", "jammy.raw"} <= set(builder.files())

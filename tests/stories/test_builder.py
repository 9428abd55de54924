"""Stories of builders: real processes and a real server; builds, uploads, requests, deaths, freezes, cuts and ends."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import BuildState, Create, Pause, Set, UploadState
from tests.builder.fleet_of_builders import SESSION_SECONDS, Yard, spoiled


def test_one_of_two_builders_builds_a_missing_image_once_and_uploads_it(yard: Yard) -> None:
    image, provider = yard.image("jammy", 0.3, ("raw", "qcow2")), yard.provider("cloud", "jammy", format="qcow2")
    for _ in range(2):
        yard.builder(image, providers=[provider]).start()
    (build,) = yard.until_ready("jammy")
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "the build is uploaded")
    assert yard.history() == [f"jammy {build.id}"], "one build only"
    assert build.record.formats == ("qcow2", "raw")
    assert not spoiled(yard)
    (upload,) = yard.builds("jammy")[0].uploads
    assert yard.provided("cloud") == [f"jammy-{build.id}-{upload.id}-cloud-{upload.record.key}.qcow2"]
    assert yard.view("jammy").holder is None, "the lock is free"


def test_the_znodes_are_those_of_the_seed(yard: Yard) -> None:
    yard.builder(yard.image("jammy"), providers=[yard.provider("cloud", "jammy")]).start()
    (build,) = yard.until_ready("jammy")
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "the build is uploaded")
    session, base = yard.session, f"/nodepool/image/jammy/builds/{build.id}"
    assert session.children("/nodepool/image/jammy") == ["builds"]
    assert sorted(session.children("/nodepool/image/jammy/builds") or ()) == [build.id, "lock"]
    id, lock = sorted(session.children(f"{base}/provider/cloud/images") or ())
    assert (len(id), id.isdigit(), lock) == (10, True, "lock")
    record = json.loads(session.get(base).data)  # type: ignore[union-attr]
    assert record["state"] == "ready"
    assert record["filename"] == f"jammy-{build.id}"
    upload = json.loads(session.get(f"{base}/provider/cloud/images/{id}").data)  # type: ignore[union-attr]
    assert (upload["state"], upload["external_id"]) == ("ready", f"jammy-{build.id}-{id}-cloud-{upload['key']}.raw")


def test_a_request_leads_to_one_more_build_and_is_gone_then(yard: Yard) -> None:
    for _ in range(2):
        yard.builder(yard.image("jammy", 0.3)).start()
    yard.until_ready("jammy")
    yard.request("jammy")
    yard.until_ready("jammy", 2)
    assert yard.view("jammy").request is None
    assert len(yard.history()) == 2


def test_a_request_during_a_build_asks_for_the_next_one(yard: Yard) -> None:
    yard.builder(yard.image("jammy", 1.0)).start()
    yard.until(lambda: yard.history(), "it is being built")
    yard.request("jammy")
    yard.until_ready("jammy", 2)
    assert yard.view("jammy").request is None
    assert len(yard.history()) == 2


def test_a_failing_image_is_tried_again_after_longer_and_longer_times_with_every_log_kept(yard: Yard) -> None:
    yard.fail.touch()
    builder = yard.builder(yard.image("jammy"), retry_seconds=0.4).start()
    yard.until(lambda: len(yard.builds("jammy", BuildState.FAILED)) >= 4, "it has failed four times")
    failed = [build.record for build in yard.builds("jammy", BuildState.FAILED)][:4]
    gaps = [later.started - earlier.state_time for earlier, later in pairwise(failed)]
    assert all(gap >= expected for gap, expected in zip(gaps, (0.4, 0.8, 1.6), strict=True)), gaps
    assert all(gap < 3 * expected + 1 for gap, expected in zip(gaps, (0.4, 0.8, 1.6), strict=True)), gaps
    assert all(record.reason == "exit status 3" and "as it was told" in (record.tail or "") for record in failed)
    assert all((builder.images / "builds" / f"{record.filename}.log").exists() for record in failed)
    yard.fail.unlink()
    yard.until_ready("jammy")


def test_the_two_newest_builds_are_kept_and_older_ones_go_with_uploads_and_files(yard: Yard) -> None:
    provider = yard.provider("cloud", "jammy")
    builder = yard.builder(yard.image("jammy"), providers=[provider]).start()
    for count in range(1, 5):
        yard.until(lambda: len(yard.history("end")) >= count, f"build {count}")  # noqa: B023
        yard.until(lambda: yard.view("jammy").request is None, "the request is fulfilled")
        newest = yard.until_ready("jammy")[0].id
        yard.until(lambda: (newest, "cloud") in yard.uploads("jammy", UploadState.READY), "it is uploaded")  # noqa: B023
        if count < 4:
            yard.request("jammy")
    yard.until(lambda: len(yard.builds("jammy")) == 2, "two builds are left")
    yard.until(lambda: len(yard.provided("cloud")) == 2, "two uploads are left")
    kept = [build.id for build in yard.builds("jammy")]
    assert {name.partition(".")[0] for name in builder.files()} == {f"jammy-{id}" for id in kept}
    assert {name[:16] for name in yard.provided("cloud")} == {f"jammy-{id}" for id in kept}


def test_setting_a_build_to_delete_deletes_it_everywhere_and_another_is_built(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy"), providers=[yard.provider("cloud", "jammy")]).start()
    (build,) = yard.until_ready("jammy")
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "it is uploaded")
    view = yard.view("jammy").build(build.id)
    assert view is not None
    path, record = paths.build("jammy", build.id), json.loads(yard.session.get(paths.build("jammy", build.id)).data)  # type: ignore[union-attr]
    yard.session.commit([Set(path, {**record, "state": "delete"}, view.version)])
    yard.until(lambda: yard.view("jammy").build(build.id) is None, "it is gone")
    (other,) = yard.until_ready("jammy")
    assert other.id > build.id
    yard.until(lambda: [name[:16] for name in yard.provided("cloud")] == [f"jammy-{other.id}"], "its upload too")
    yard.until(lambda: not any(build.id in name for name in builder.files()), "and its files")


def test_a_paused_image_is_not_built_until_the_pause_ends(yard: Yard) -> None:
    yard.session.ensure(paths.image("jammy"))
    pause = Pause(by="test", at=time.time(), until=time.time() + 3.0)
    yard.session.commit([Create(paths.pause("jammy"), pause)])
    yard.builder(yard.image("jammy"), yard.image("noble")).start()
    yard.until_ready("noble")
    yard.until_ready("jammy")
    assert yard.builds("jammy")[0].record.started >= pause.until  # type: ignore[operator]


def test_a_killed_builder_is_replaced_at_once_and_tidies_up_when_it_is_back(yard: Yard) -> None:
    image = yard.image("jammy", 4.0)
    first = yard.builder(image).start()
    yard.until(lambda: yard.history(), "it is being built")
    (doomed,) = yard.builds("jammy", BuildState.BUILDING)
    second = yard.builder(image).start()
    killed = time.monotonic()
    first.kill()
    yard.until(
        lambda: yard.view("jammy").build(doomed.id).record.state is BuildState.ABORTED,  # type: ignore[union-attr]
        "the dead build is not shown as building",
        SESSION_SECONDS + 2,
    )
    yard.until(lambda: len(yard.history()) == 2, "another has begun", killed + 5 + SESSION_SECONDS - time.monotonic())
    assert not list(Path("/proc").glob(f"*/root{first.images}/*.build")), "nobody works there"
    (ready,) = yard.until_ready("jammy")
    assert ready.record.builder_id == second.id
    assert yard.view("jammy").build(doomed.id) is not None, "its record waits for its builder"
    first.start()
    yard.until(lambda: yard.view("jammy").build(doomed.id) is None, "its record is gone")
    assert not [name for name in first.files() if doomed.id in name]


def test_a_session_lost_while_a_build_ends_costs_nothing_if_nobody_took_over(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy", 2.0)).start()
    yard.until(lambda: yard.history(), "it is being built")
    builder.proxy.cut()
    yard.until(lambda: yard.history("end"), "it has been built")
    yard.until(lambda: yard.view("jammy").holder is None, "its session is over", 10.0)
    builder.proxy.heal()
    yard.until_ready("jammy")
    assert len(yard.history()) == 1
    assert not spoiled(yard)


def test_a_builder_that_was_frozen_gives_way_to_the_one_that_took_over(yard: Yard) -> None:
    image = yard.image("jammy", 3.0)
    first = yard.builder(image).start()
    yard.until(lambda: yard.history(), "it is being built")
    second = yard.builder(image).start()
    first.freeze()
    yard.until(lambda: len(yard.history()) == 2, "another has begun")
    yard.until_ready("jammy")
    first.thaw()
    yard.until(lambda: len(yard.builds("jammy")) == 1, "the first has given up")
    (build,) = yard.until_ready("jammy")
    assert build.record.builder_id == second.id
    yard.until(lambda: not first.files(), "and has left nothing")
    assert first.running()


def test_sigterm_ends_a_build_within_its_time_and_leaves_nothing(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy", 60.0), drain_seconds=0.5).start()
    yard.until(lambda: yard.history(), "it is being built")
    began = time.monotonic()
    builder.terminate()
    assert builder.wait() == 0
    assert time.monotonic() - began < 10.0
    assert not yard.builds("jammy")
    assert not builder.files()
    assert yard.view("jammy").holder is None


def test_an_upload_that_fails_is_tried_again(yard: Yard) -> None:
    obstacle = yard.folder / "providers" / "cloud"
    obstacle.parent.mkdir()
    obstacle.touch()  # a file where the provider wants a directory
    yard.builder(yard.image("jammy"), providers=[yard.provider("cloud", "jammy")]).start()
    yard.until(lambda: yard.uploads("jammy", UploadState.FAILED), "the upload fails")
    obstacle.unlink()
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "the upload is well at last")
    ((build,),) = [yard.builds("jammy")]
    assert len(build.uploads) == 1
    assert build.uploads[0].record.attempt > 1


def test_files_without_a_record_go_after_a_grace_time_and_strange_files_stay(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy"))
    builder.images.mkdir()
    for name in ("jammy-0000000077.raw", "jammy-0000000077.new.raw", "notes.txt", "jammy.raw"):
        (builder.images / name).write_text("x")
    (builder.images / "jammy-0000000077.d").mkdir()
    builder.start()
    yard.until_ready("jammy")
    yard.until(lambda: not any("77" in name for name in builder.files()), "what has no record is gone")
    assert {"notes.txt", "jammy.raw"} <= set(builder.files())

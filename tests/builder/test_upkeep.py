"""What builders keep, move and take away while they go on: pins, formats, providers, leaks, damaged files, reloads."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from nodepool_ocb.images.builders import stranded
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import Daemon, Delete, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.glance import Glance
from tests.builder.fleet_of_builders import BuilderFleet


def test_an_image_is_built_by_a_builder_with_its_label_and_by_no_other(builders: BuilderFleet) -> None:
    pinned = builders.image("jammy", builders=["big", "fast"])
    free = builders.image("noble")
    plain = builders.builder(pinned, free, labels=["small"]).start()
    builders.until_ready("noble")
    assert not builders.builds("jammy")
    reason = builders.registration(plain).images["jammy"].cannot
    assert reason == "the image is for builders with label big or fast; this builder has labels small"
    big = builders.builder(pinned, labels=["big"]).start()
    (build,) = builders.until_ready("jammy")
    assert build.record.builder_id == big.id != plain.id


def test_an_image_of_another_architecture_waits_for_a_builder_that_has_it(builders: BuilderFleet) -> None:
    image = builders.image("jammy", arch="aarch64")
    first = builders.builder(image, builders.image("noble")).start()
    builders.until_ready("noble")
    assert not builders.builds("jammy")
    assert (builders.registration(first).images["jammy"].cannot or "").startswith(
        "the image is for aarch64; this builder is "
    )
    other = builders.builder(image, arch="aarch64").start()
    (build,) = builders.until_ready("jammy")
    assert build.record.builder_id == other.id


def test_after_the_uploads_only_the_formats_that_are_to_be_kept_stay(builders: BuilderFleet) -> None:
    image = builders.image("jammy", formats=("raw", "qcow2"), delete_after_upload=True, keep_formats=["qcow2"])
    builder = builders.builder(image, providers=[builders.provider("cloud", "jammy", format="raw")]).start()
    (build,) = builders.until_ready("jammy")
    name = f"jammy-{build.id}"
    kept = [f"{name}.d", f"{name}.qcow2", f"{name}.qcow2.md5", f"{name}.qcow2.sha256"]
    builders.until(lambda: builder.files() == kept, "the other format is gone")
    assert builders.builds("jammy")[0].record.removed == ("raw",)
    assert len(builders.history()) == 1, "what was taken away on purpose is not missing"


def test_a_provider_that_is_not_to_have_an_image_any_more_loses_it(builders: BuilderFleet) -> None:
    image = builders.image("jammy")
    north, south = builders.provider("north", "jammy"), builders.provider("south", "jammy")
    builder = builders.builder(image, providers=[north, south]).start()
    builders.until_ready("jammy")
    builders.until(lambda: len(builders.uploads("jammy", UploadState.READY)) == 2, "both have it")
    builders.configure(builder, image, providers=[north, {**south, "diskimages": []}])
    builder.reload()
    builders.until(lambda: [provider for _, provider in builders.uploads("jammy")] == ["north"], "one has it still")
    assert not builders.provided("south")
    assert builders.provided("north")


def test_a_provider_taken_out_pins_a_build_until_its_upload_is_forgotten(builders: BuilderFleet) -> None:
    image, west = builders.image("jammy"), builders.provider("west", "jammy")
    builder = builders.builder(image, providers=[west], keep=1).start()
    (first,) = builders.until_ready("jammy")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded")
    builders.configure(builder, image)
    builder.reload()
    running = lambda: {builder.id: codec.decode(Daemon, builders.session.get(paths.daemon("builder", builder.id)))}  # noqa: E731
    builders.until(lambda: stranded({"jammy": builders.view("jammy")}, running()), "status can tell")
    builders.request("jammy")
    (second, _) = builders.until_ready("jammy", 2)
    (upload,) = builders.builds("jammy")[0].uploads
    builders.session.commit([Delete(paths.upload("jammy", first.id, "west", upload.id), upload.version)])
    builders.until(
        lambda: [build.id for build in builders.builds("jammy")] == [second.id], "the older build is free to go"
    )
    assert builders.provided("west"), "nobody asked the provider"


def test_a_new_provider_gets_the_newest_build_after_a_reload_and_a_broken_file_changes_nothing(
    builders: BuilderFleet,
) -> None:
    image, north = builders.image("jammy"), builders.provider("north", "jammy")
    builder = builders.builder(image, providers=[north]).start()
    builders.until_ready("jammy")
    nodepool = builder.config.parent / "nodepool.yaml"
    good = nodepool.read_text()
    nodepool.write_text(good.replace("diskimages:", "diskimage:", 1))
    builder.reload()
    builders.until(lambda: "did you mean `diskimages`" in builder.said, "the fault is reported")
    assert builder.running()
    builders.configure(builder, image, providers=[north, builders.provider("south", "jammy")])
    builder.reload()
    builders.until(lambda: builders.provided("south"), "the new provider has it")
    assert len(builders.history()) == 1


def test_a_changed_file_is_noticed_without_a_signal_and_one_that_lost_its_images_is_not_taken(
    builders: BuilderFleet,
) -> None:
    image, north = builders.image("jammy"), builders.provider("north", "jammy")
    launcher = (str(Path(__file__).with_name("watchful_builder.py")),)
    builder = builders.builder(image, providers=[north], launcher=launcher).start()
    builders.until_ready("jammy")
    builders.configure(builder, image, providers=[north, builders.provider("south", "jammy")])
    builders.until(lambda: builders.provided("south"), "the new provider has it")
    (builder.config.parent / "nodepool.yaml").write_text("")
    builders.until(lambda: "has no diskimage any more" in builder.said, "it is reported")
    (builder.config.parent / "nodepool.yaml").write_text("diskimage: []")
    builders.until(lambda: "did you mean `diskimages`" in builder.said, "the fault is reported")
    builders.configure(builder, image, providers=[north, builders.provider("east", "jammy")])
    builders.until(lambda: builders.provided("east"), "it goes on with a good one")
    assert builder.said.count("the new configuration is refused, and the former one stays in use") == 2, (
        "each broken file is said once"
    )
    assert len(builders.history()) == 1


def test_what_a_provider_has_of_us_and_no_record_names_is_deleted_when_it_was_seen_twice(
    builders: BuilderFleet,
) -> None:
    builder = builders.builder(
        builders.image("jammy"), providers=[builders.provider("cloud", "jammy")], leak_seconds=1.0
    ).start()
    builders.until_ready("jammy")
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded")
    folder = builders.folder / "providers" / "cloud"
    (ours,) = builders.provided("cloud")
    stamp = json.loads((folder / f"{ours}.json").read_text())
    leak, foreign = "jammy-0000000099-0000000001.raw", "jammy-0000000098-0000000001.raw"
    for name, cluster in ((foreign, "another"), (leak, stamp["stamp"]["nodepool_ocb_cluster"])):
        theirs = {**stamp["stamp"], "nodepool_ocb_cluster": cluster, "nodepool_ocb_build": name[6:16]}
        (folder / name).write_text("x")
        (folder / f"{name}.json").write_text(json.dumps({**stamp, "stamp": theirs}))
    builders.until(lambda: leak not in builders.provided("cloud"), "the leak is gone")
    assert builders.provided("cloud") == sorted([ours, foreign]), "what others own stays"
    assert builder.metric("nodepool_ocb_leaks_total") == 1


def test_a_builder_killed_between_an_upload_and_its_record_leaves_no_object(builders: BuilderFleet) -> None:
    """The next process deletes it at its first look, which is not later because leaks are looked for once an hour."""
    sent, slow, hook = (builders.folder / name for name in ("sent", "slow", "hook"))
    slow.touch()
    hook.write_text(f"#!/bin/sh\necho $2 >>{sent}\nfor i in $(seq 600); do [ -e {slow} ] && sleep 0.05; done; true\n")
    hook.chmod(0o755)
    cloud = {**builders.provider("cloud", "jammy"), "post-upload-hook": str(hook)}
    builder = builders.builder(builders.image("jammy"), providers=[cloud], leak_seconds=3600.0).start()
    for kill in (1, 2):
        builders.until(
            lambda count=kill: sent.exists() and len(sent.read_text().split()) >= count, "the provider has the object"
        )
        builder.kill()
        builder.begin()
    slow.unlink()
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded")
    (upload,) = (upload for build in builders.builds("jammy") for upload in build.uploads)
    builders.until(lambda: builders.provided("cloud") == [upload.record.external_id], "the leaks are gone")


def test_two_providers_of_one_cloud_take_nothing_from_each_other(builders: BuilderFleet) -> None:
    with Glance() as glance:
        clouds = builders.folder / "clouds.yaml"
        glance.write_clouds(clouds)
        where = {"driver": "openstack", "cloud": "test", "region-name": "RegionOne", "diskimages": [{"name": "jammy"}]}
        builder = builders.builder(
            builders.image("jammy", formats=("qcow2",)),
            providers=[{"name": name, **where} for name in ("east", "west")],
            leak_seconds=0.5,
        )
        builder.begin(OS_CLIENT_CONFIG_FILE=str(clouds))
        builders.until(lambda: len(builders.uploads("jammy", UploadState.READY)) == 2, "both have it")
        (upload, _) = builders.builds("jammy")[0].uploads
        leak = {**glance.images[str(upload.record.external_id)], "id": "leak", "nodepool_ocb_build": "0000000099"}
        glance.images["leak"] = leak
        builders.until(lambda: "leak" not in glance.images, "the looks for leaks go on, and find one")
        ready = {str(each.record.external_id) for each in builders.builds("jammy")[0].uploads}
        assert set(glance.images) == ready
        assert len(builders.uploads("jammy", UploadState.READY)) == 2
        builder.terminate()
        builder.wait()


def test_two_providers_in_one_directory_take_nothing_from_each_other(builders: BuilderFleet) -> None:
    shared = str(builders.folder / "providers" / "both")
    names = ("east", "west")
    providers = [{**builders.provider(name, "jammy"), "directory": shared} for name in names]
    builder = builders.builder(builders.image("jammy"), providers=providers, leak_seconds=0.5).start()
    builders.until(lambda: len(builders.uploads("jammy", UploadState.READY)) == 2, "both have it")
    (ours, _) = builders.provided("both")
    side = json.loads((Path(shared) / f"{ours}.json").read_text())
    side["stamp"]["nodepool_ocb_build"] = "0000000099"
    (Path(shared) / "leak.raw.json").write_text(json.dumps(side))
    builders.until(lambda: builder.metric("nodepool_ocb_leaks_total") == 1, "the looks for leaks go on, and find one")
    assert len(builders.provided("both")) == 2
    builders.configure(builder, builders.image("jammy"), providers=[providers[0], {**providers[1], "diskimages": []}])
    builder.reload()
    builders.until(lambda: len(builders.uploads("jammy")) == 1, "one is to have it no more")
    (left,) = builders.provided("both")
    assert "-east-" in left


def test_a_damaged_file_is_sent_nowhere_and_another_build_takes_its_place(builders: BuilderFleet) -> None:
    image, cloud = builders.image("jammy"), builders.provider("cloud", "jammy")
    builder = builders.builder(image).start()
    (damaged,) = builders.until_ready("jammy")
    (builder.images / f"jammy-{damaged.id}.raw").write_text("not what was built")
    builders.configure(builder, image, providers=[cloud])
    builder.reload()
    builders.until(lambda: len(builders.provided("cloud")) == 1, "another build is uploaded")
    assert not builders.provided("cloud")[0].startswith(f"jammy-{damaged.id}")
    failed = builders.view("jammy").build(damaged.id)
    assert failed is not None
    assert failed.record.state is BuildState.FAILED
    assert "damaged" in (failed.record.reason or "")


def registered(builders: BuilderFleet) -> list[Daemon]:
    names = builders.session.children(paths.daemons("builder")) or ()
    znodes = builders.session.get_many([paths.daemon("builder", name) for name in names])
    return [codec.decode(Daemon, znode) for znode in znodes if znode]


def test_without_room_on_the_disk_no_build_begins_and_the_builder_is_not_ready(builders: BuilderFleet) -> None:
    image = builders.image("jammy")
    builder = builders.builder(image, free_bytes=1 << 60).begin()
    builders.until(lambda: "cannot be built" in builder.said, "the log tells of it")
    assert "make room there" in builder.said
    builders.until(
        lambda: any("make room there" in (each.trouble or "") for each in registered(builders)), "everybody sees it"
    )
    with pytest.raises(HTTPError, match="503") as unready, urlopen(f"http://{builder.pages}/health/ready"):
        pass
    with unready.value:
        assert "make room there" in unready.value.read().decode()
    assert not builders.builds("jammy")
    roomy = builders.builder(image).start()
    (build,) = builders.until_ready("jammy")
    assert build.record.builder_id == roomy.id


def test_a_builder_whose_turns_fail_says_so_until_they_go_well_again(builders: BuilderFleet) -> None:
    mark = builders.folder / "sick"
    mark.touch()
    launcher = (str(Path(__file__).with_name("sick_builder.py")),)
    builder = builders.builder(builders.image("jammy"), launcher=launcher).begin(SICK_FILE=str(mark))
    wrong = "its turns fail: OSError: no room at all"
    builders.until(lambda: [each.trouble for each in registered(builders)] == [wrong], "everybody sees it")
    assert not builder.ready()
    mark.unlink()
    builders.until(lambda: [each.trouble for each in registered(builders)] == [None], "its turns go well again")
    builders.until(builder.ready, "it is ready")


def test_builders_whose_formats_differ_build_once_each_and_say_so_once(builders: BuilderFleet) -> None:
    formats = {"qcow2": builders.image("jammy", formats=("qcow2",)), "raw": builders.image("jammy", formats=("raw",))}
    three = [builders.builder(image, sweep_seconds=0.5, keep=1).start() for image in formats.values()]
    builders.until_ready("jammy", 2)
    for builder in three:
        builders.until(lambda: "configured differently" in builder.said, "it is said")  # noqa: B023
        sweeps = builder.metric("nodepool_ocb_sweeps_total")
        builders.until(lambda: builder.metric("nodepool_ocb_sweeps_total") >= sweeps + 4, "more looks")  # noqa: B023
    assert len(builders.history()) == 2
    assert {build.record.formats for build in builders.view("jammy").ready()} == {("qcow2",), ("raw",)}
    for builder in three:
        assert builder.said.count("configured differently") <= 2, "as the first comes alone, and as the second comes"
        assert "jammy" in builder.said.partition("configured differently")[2].partition("\n")[0]


def test_what_only_a_builder_that_is_gone_could_send_is_built_anew(builders: BuilderFleet) -> None:
    image, cloud = builders.image("jammy"), builders.provider("cloud", "jammy")
    paused = {**cloud, "diskimages": [{"name": "jammy", "pause": True}]}
    first = builders.builder(image, providers=[paused]).start()
    (lost,) = builders.until_ready("jammy")
    first.kill()
    builders.builder(image, providers=[cloud], sweep_seconds=0.5, gone_seconds=1.0).start()
    (newest, _) = builders.until_ready("jammy", 2)
    assert newest.id > lost.id
    builders.until(lambda: (newest.id, "cloud") in builders.uploads("jammy", UploadState.READY), "it is uploaded")
    assert len(builders.history()) == 2


@pytest.mark.long
def test_builders_whose_clocks_are_hours_apart_agree_on_what_is_due(builders: BuilderFleet) -> None:
    image = builders.image("jammy", rebuild_age=3600)
    before = builders.session.now()
    builders.builder(image, session_seconds=10.0).begin(**skewed(7 * 3600.0))
    (build,) = builders.until_ready("jammy")
    assert before - 60 <= build.record.state_time <= builders.session.now() + 1
    other = builders.builder(image, session_seconds=10.0)
    other.begin(**skewed(-7 * 3600.0))
    builders.until(lambda: (other.images / "builder_id.txt").exists(), "the other begins")
    path = paths.daemon("builder", other.id)
    builders.until(lambda: builders.session.get(path), "the other is there")
    builders.request("jammy")
    builders.until(lambda: builders.view("jammy").request is None, "the request is fulfilled")
    assert len(builders.history()) == 2
    assert all(before - 60 <= each.record.state_time <= builders.session.now() + 1 for each in builders.builds("jammy"))


def test_a_build_that_was_written_under_a_clock_ten_years_ahead_grows_old(builders: BuilderFleet) -> None:
    image = builders.image("jammy", rebuild_age=1)
    builder = builders.builder(image).start()
    (build,) = builders.until_ready("jammy")
    builder.kill()
    view = builders.view("jammy").build(build.id)
    assert view is not None
    ahead = replace(view.record, state_time=builders.session.now() + 3650 * 86400.0)
    builders.session.commit([Set(paths.build("jammy", build.id), ahead, view.version)])
    builder.start()
    builders.until(lambda: len(builders.history()) >= 2, "another is built")


def test_a_builder_without_a_spread_rebuilds_at_the_exact_age(builders: BuilderFleet) -> None:
    image = builders.image("jammy", rebuild_age=86400)
    builders.builder(image, rebuild_spread=0).start()
    (build,) = builders.until_ready("jammy")
    view = builders.view("jammy").build(build.id)
    assert view is not None
    aged = replace(view.record, state_time=view.record.state_time - 86400)
    builders.session.commit([Set(paths.build("jammy", build.id), aged, view.version)])
    builders.until_ready("jammy", 2)


def test_two_builders_do_not_share_a_directory(builders: BuilderFleet) -> None:
    first = builders.builder(builders.image("jammy")).start()
    second = builders.builder(builders.image("jammy"))
    nodepool = second.config.parent / "nodepool.yaml"
    nodepool.write_text(nodepool.read_text().replace(str(second.images), str(first.images)))
    second.begin()
    assert second.wait() == 4
    assert "give each builder an images-dir of its own" in second.said
    assert Path(first.images).exists()

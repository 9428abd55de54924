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
from nodepool_ocb.model.records import BuildState, Daemon, Delete, Set, UploadState
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.glance import Glance
from tests.builder.fleet_of_builders import Yard


def test_an_image_is_built_by_a_builder_with_its_label_and_by_no_other(yard: Yard) -> None:
    pinned = yard.image("jammy", builders=["big", "fast"])
    free = yard.image("noble")
    plain = yard.builder(pinned, free, labels=["small"]).start()
    yard.until_ready("noble")
    assert not yard.builds("jammy")
    big = yard.builder(pinned, labels=["big"]).start()
    (build,) = yard.until_ready("jammy")
    assert build.record.builder_id == big.id != plain.id


def test_an_image_of_another_architecture_waits_for_a_builder_that_has_it(yard: Yard) -> None:
    image = yard.image("jammy", arch="aarch64")
    yard.builder(image, yard.image("noble")).start()
    yard.until_ready("noble")
    assert not yard.builds("jammy")
    other = yard.builder(image, arch="aarch64").start()
    (build,) = yard.until_ready("jammy")
    assert build.record.builder_id == other.id


def test_after_the_uploads_only_the_formats_that_are_to_be_kept_stay(yard: Yard) -> None:
    image = yard.image("jammy", formats=("raw", "qcow2"), delete_after_upload=True, keep_formats=["qcow2"])
    builder = yard.builder(image, providers=[yard.provider("cloud", "jammy", format="raw")]).start()
    (build,) = yard.until_ready("jammy")
    name = f"jammy-{build.id}"
    kept = [f"{name}.d", f"{name}.qcow2", f"{name}.qcow2.md5", f"{name}.qcow2.sha256"]
    yard.until(lambda: builder.files() == kept, "the other format is gone")
    assert yard.builds("jammy")[0].record.removed == ("raw",)
    assert len(yard.history()) == 1, "what was taken away on purpose is not missing"


def test_a_provider_that_is_not_to_have_an_image_any_more_loses_it(yard: Yard) -> None:
    image = yard.image("jammy")
    north, south = yard.provider("north", "jammy"), yard.provider("south", "jammy")
    builder = yard.builder(image, providers=[north, south]).start()
    yard.until_ready("jammy")
    yard.until(lambda: len(yard.uploads("jammy", UploadState.READY)) == 2, "both have it")
    yard.configure(builder, image, providers=[north, {**south, "diskimages": []}])
    builder.reload()
    yard.until(lambda: [provider for _, provider in yard.uploads("jammy")] == ["north"], "one has it still")
    assert not yard.provided("south")
    assert yard.provided("north")


def test_a_provider_taken_out_pins_a_build_until_its_upload_is_forgotten(yard: Yard) -> None:
    image, west = yard.image("jammy"), yard.provider("west", "jammy")
    builder = yard.builder(image, providers=[west], keep=1).start()
    (first,) = yard.until_ready("jammy")
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "it is uploaded")
    yard.configure(builder, image)
    builder.reload()
    running = lambda: {builder.id: codec.decode(Daemon, yard.session.get(paths.daemon("builder", builder.id)))}  # noqa: E731
    yard.until(lambda: stranded({"jammy": yard.view("jammy")}, running()), "status can tell")
    yard.request("jammy")
    (second, _) = yard.until_ready("jammy", 2)
    (upload,) = yard.builds("jammy")[0].uploads
    yard.session.commit([Delete(paths.upload("jammy", first.id, "west", upload.id), upload.version)])
    yard.until(lambda: [build.id for build in yard.builds("jammy")] == [second.id], "the older build is free to go")
    assert yard.provided("west"), "nobody asked the provider"


def test_a_new_provider_gets_the_newest_build_after_a_reload_and_a_broken_file_changes_nothing(yard: Yard) -> None:
    image, north = yard.image("jammy"), yard.provider("north", "jammy")
    builder = yard.builder(image, providers=[north]).start()
    yard.until_ready("jammy")
    nodepool = builder.config.parent / "nodepool.yaml"
    good = nodepool.read_text()
    nodepool.write_text(good.replace("diskimages:", "diskimage:", 1))
    builder.reload()
    yard.until(lambda: "did you mean `diskimages`" in builder.said, "the fault is told")
    assert builder.running()
    yard.configure(builder, image, providers=[north, yard.provider("south", "jammy")])
    builder.reload()
    yard.until(lambda: yard.provided("south"), "the new provider has it")
    assert len(yard.history()) == 1


def test_what_a_provider_has_of_us_and_no_record_names_is_deleted_when_it_was_seen_twice(yard: Yard) -> None:
    builder = yard.builder(yard.image("jammy"), providers=[yard.provider("cloud", "jammy")], leak_seconds=1.0).start()
    yard.until_ready("jammy")
    yard.until(lambda: yard.uploads("jammy", UploadState.READY), "it is uploaded")
    folder = yard.folder / "providers" / "cloud"
    (ours,) = yard.provided("cloud")
    stamp = json.loads((folder / f"{ours}.json").read_text())
    leak, foreign = "jammy-0000000099-0000000001.raw", "jammy-0000000098-0000000001.raw"
    for name, cluster in ((foreign, "another"), (leak, stamp["stamp"]["nodepool_ocb_cluster"])):
        theirs = {**stamp["stamp"], "nodepool_ocb_cluster": cluster, "nodepool_ocb_build": name[6:16]}
        (folder / name).write_text("x")
        (folder / f"{name}.json").write_text(json.dumps({**stamp, "stamp": theirs}))
    yard.until(lambda: leak not in yard.provided("cloud"), "the leak is gone")
    assert yard.provided("cloud") == sorted([ours, foreign]), "what others own stays"
    assert builder.metric("nodepool_ocb_leaks_total") == 1


def test_two_providers_of_one_cloud_take_nothing_from_each_other(yard: Yard) -> None:
    with Glance() as glance:
        clouds = yard.folder / "clouds.yaml"
        glance.write_clouds(clouds)
        where = {"driver": "openstack", "cloud": "test", "region-name": "RegionOne", "diskimages": [{"name": "jammy"}]}
        builder = yard.builder(
            yard.image("jammy", formats=("qcow2",)),
            providers=[{"name": name, **where} for name in ("east", "west")],
            leak_seconds=0.5,
        )
        builder.begin(OS_CLIENT_CONFIG_FILE=str(clouds))
        yard.until(lambda: len(yard.uploads("jammy", UploadState.READY)) == 2, "both have it")
        (upload, _) = yard.builds("jammy")[0].uploads
        leak = {**glance.images[str(upload.record.external_id)], "id": "leak", "nodepool_ocb_build": "0000000099"}
        glance.images["leak"] = leak
        yard.until(lambda: "leak" not in glance.images, "the looks for leaks go on, and find one")
        ready = {str(each.record.external_id) for each in yard.builds("jammy")[0].uploads}
        assert set(glance.images) == ready
        assert len(yard.uploads("jammy", UploadState.READY)) == 2
        builder.terminate()
        builder.wait()


def test_two_providers_in_one_directory_take_nothing_from_each_other(yard: Yard) -> None:
    shared = str(yard.folder / "providers" / "both")
    names = ("east", "west")
    providers = [{**yard.provider(name, "jammy"), "directory": shared} for name in names]
    builder = yard.builder(yard.image("jammy"), providers=providers, leak_seconds=0.5).start()
    yard.until(lambda: len(yard.uploads("jammy", UploadState.READY)) == 2, "both have it")
    (ours, _) = yard.provided("both")
    side = json.loads((Path(shared) / f"{ours}.json").read_text())
    side["stamp"]["nodepool_ocb_build"] = "0000000099"
    (Path(shared) / "leak.raw.json").write_text(json.dumps(side))
    yard.until(lambda: builder.metric("nodepool_ocb_leaks_total") == 1, "the looks for leaks go on, and find one")
    assert len(yard.provided("both")) == 2
    yard.configure(builder, yard.image("jammy"), providers=[providers[0], {**providers[1], "diskimages": []}])
    builder.reload()
    yard.until(lambda: len(yard.uploads("jammy")) == 1, "one is to have it no more")
    (left,) = yard.provided("both")
    assert "-east-" in left


def test_a_damaged_file_is_sent_nowhere_and_another_build_takes_its_place(yard: Yard) -> None:
    image, cloud = yard.image("jammy"), yard.provider("cloud", "jammy")
    builder = yard.builder(image).start()
    (damaged,) = yard.until_ready("jammy")
    (builder.images / f"jammy-{damaged.id}.raw").write_text("not what was built")
    yard.configure(builder, image, providers=[cloud])
    builder.reload()
    yard.until(lambda: len(yard.provided("cloud")) == 1, "another build is uploaded")
    assert not yard.provided("cloud")[0].startswith(f"jammy-{damaged.id}")
    failed = yard.view("jammy").build(damaged.id)
    assert failed is not None
    assert failed.record.state is BuildState.FAILED
    assert "damaged" in (failed.record.reason or "")


def registered(yard: Yard) -> list[Daemon]:
    names = yard.session.children(paths.daemons("builder")) or ()
    znodes = yard.session.get_many([paths.daemon("builder", name) for name in names])
    return [codec.decode(Daemon, znode) for znode in znodes if znode]


def test_without_room_on_the_disk_no_build_begins_and_the_builder_is_not_ready(yard: Yard) -> None:
    image = yard.image("jammy")
    builder = yard.builder(image, free_bytes=1 << 60).begin()
    yard.until(lambda: "cannot be built" in builder.said, "the log tells of it")
    assert "make room there" in builder.said
    yard.until(lambda: any("make room there" in (each.trouble or "") for each in registered(yard)), "everybody sees it")
    with pytest.raises(HTTPError, match="503") as unready, urlopen(f"http://{builder.pages}/health/ready"):
        pass
    with unready.value:
        assert "make room there" in unready.value.read().decode()
    assert not yard.builds("jammy")
    roomy = yard.builder(image).start()
    (build,) = yard.until_ready("jammy")
    assert build.record.builder_id == roomy.id


def test_a_builder_whose_turns_fail_says_so_until_they_go_well_again(yard: Yard) -> None:
    mark = yard.folder / "sick"
    mark.touch()
    launcher = (str(Path(__file__).with_name("sick_builder.py")),)
    builder = yard.builder(yard.image("jammy"), launcher=launcher).begin(SICK_FILE=str(mark))
    wrong = "its turns fail: OSError: no room at all"
    yard.until(lambda: [each.trouble for each in registered(yard)] == [wrong], "everybody sees it")
    assert not builder.ready()
    mark.unlink()
    yard.until(lambda: [each.trouble for each in registered(yard)] == [None], "its turns go well again")
    yard.until(builder.ready, "it is ready")


def test_builders_whose_formats_differ_build_once_each_and_say_so_once(yard: Yard) -> None:
    formats = {"qcow2": yard.image("jammy", formats=("qcow2",)), "raw": yard.image("jammy", formats=("raw",))}
    builders = [yard.builder(image, sweep_seconds=0.5, keep=1).start() for image in formats.values()]
    yard.until_ready("jammy", 2)
    for builder in builders:
        yard.until(lambda: "configured differently" in builder.said, "it is said")  # noqa: B023
        sweeps = builder.metric("nodepool_ocb_sweeps_total")
        yard.until(lambda: builder.metric("nodepool_ocb_sweeps_total") >= sweeps + 4, "more looks")  # noqa: B023
    assert len(yard.history()) == 2
    assert {build.record.formats for build in yard.view("jammy").ready()} == {("qcow2",), ("raw",)}
    for builder in builders:
        assert builder.said.count("configured differently") <= 2, "as the first comes alone, and as the second comes"
        assert "jammy" in builder.said.partition("configured differently")[2].partition("\n")[0]


def test_what_only_a_builder_that_is_gone_could_send_is_built_anew(yard: Yard) -> None:
    image, cloud = yard.image("jammy"), yard.provider("cloud", "jammy")
    paused = {**cloud, "diskimages": [{"name": "jammy", "pause": True}]}
    first = yard.builder(image, providers=[paused]).start()
    (lost,) = yard.until_ready("jammy")
    first.kill()
    yard.builder(image, providers=[cloud], sweep_seconds=0.5, gone_seconds=1.0).start()
    (newest, _) = yard.until_ready("jammy", 2)
    assert newest.id > lost.id
    yard.until(lambda: (newest.id, "cloud") in yard.uploads("jammy", UploadState.READY), "it is uploaded")
    assert len(yard.history()) == 2


def test_builders_whose_clocks_are_hours_apart_agree_on_what_is_due(yard: Yard) -> None:
    image = yard.image("jammy", rebuild_age=3600)
    before = yard.session.now()
    yard.builder(image, session_seconds=10.0).begin(**skewed(7 * 3600.0))
    (build,) = yard.until_ready("jammy")
    assert before - 60 <= build.record.state_time <= yard.session.now() + 1
    other = yard.builder(image, session_seconds=10.0)
    other.begin(**skewed(-7 * 3600.0))
    yard.until(lambda: (other.images / "builder_id.txt").exists(), "the other begins")
    path = paths.daemon("builder", other.id)
    yard.until(lambda: yard.session.get(path), "the other is there")
    yard.request("jammy")
    yard.until(lambda: yard.view("jammy").request is None, "the request is fulfilled")
    assert len(yard.history()) == 2
    assert all(before - 60 <= each.record.state_time <= yard.session.now() + 1 for each in yard.builds("jammy"))


def test_a_build_that_was_written_under_a_clock_ten_years_ahead_grows_old(yard: Yard) -> None:
    image = yard.image("jammy", rebuild_age=1)
    builder = yard.builder(image).start()
    (build,) = yard.until_ready("jammy")
    builder.kill()
    view = yard.view("jammy").build(build.id)
    assert view is not None
    ahead = replace(view.record, state_time=yard.session.now() + 3650 * 86400.0)
    yard.session.commit([Set(paths.build("jammy", build.id), ahead, view.version)])
    builder.start()
    yard.until(lambda: len(yard.history()) >= 2, "another is built")


def test_two_builders_do_not_share_a_directory(yard: Yard) -> None:
    first = yard.builder(yard.image("jammy")).start()
    second = yard.builder(yard.image("jammy"))
    nodepool = second.config.parent / "nodepool.yaml"
    nodepool.write_text(nodepool.read_text().replace(str(second.images), str(first.images)))
    second.begin()
    assert second.wait() == 4
    assert "give each builder an images-dir of its own" in second.said
    assert Path(first.images).exists()

"""A newer upload of a label's image becomes ready while a machine of the former one is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.pool import PoolNodeState
from nodepool_ocb.model.records import Create, Json
from tests.launcher.launcher_fleet import LauncherFleet

IMAGE = "debian"


@pytest.fixture
def fleet(launchers: LauncherFleet) -> LauncherFleet:
    """The first upload is ready."""
    publish(launchers, 1)
    return launchers


def publish(fleet: LauncherFleet, number: int) -> str:
    """A build with a ready upload at the provider; gives the path of the upload's record."""
    build = f"{number:010}"
    path = paths.upload(IMAGE, build, "north", "0000000001")
    fleet.session.ensure(paths.builds(IMAGE))
    record = Build(builder="b", builder_id="b", filename="f", state=BuildState.READY, state_time=1.0)
    fleet.session.commit([Create(paths.build(IMAGE, build), record)])
    fleet.session.ensure(str(Path(path).parent))
    upload = Upload(state=UploadState.READY, state_time=1.0, format="raw", external_id=f"image-{number}")
    fleet.session.commit([Create(path, upload)])
    return path


def start(fleet: LauncherFleet, **label: Json) -> None:
    """A launcher with one label of the image, and machines that boot for some seconds."""
    folder = str(fleet.folder / "clouds" / "north")
    pool: Json = {"name": "main", "labels": [{"name": "small", "diskimage": IMAGE}]}
    cloud: dict[str, Json] = {"name": "north", "driver": "fake", "fake-cloud": {"directory": folder, "boot-seconds": 5}}
    cloud |= {"diskimages": [{"name": IMAGE}], "pools": [pool]}
    launcher = fleet.launcher(cloud, labels=[{"name": "small", **label}])
    file = launcher.config.parent / "nodepool.yaml"
    file.write_text(f"{file.read_text()}diskimages: [{{name: {IMAGE}}}]\n")
    launcher.start()


def test_the_node_of_a_request_is_handed_out_with_the_image_that_its_record_names(fleet: LauncherFleet) -> None:
    start(fleet)
    request = fleet.request("small")
    fleet.until(lambda: fleet.machines("north"), "the machine boots")
    publish(fleet, 2)
    (node,) = fleet.fulfilled(request)
    (machine,) = fleet.machines("north")
    assert machine["image"] == "image-1"
    assert node.image_id == paths.upload(IMAGE, "0000000001", "north", "0000000001")
    assert fleet.calls("north").count("create") == 1


def test_an_idle_node_is_replaced_by_one_of_the_newer_image_when_its_launch_has_ended(fleet: LauncherFleet) -> None:
    start(fleet, **{"min-ready": 1})
    fleet.until(lambda: fleet.machines("north"), "the machine boots")
    newer = publish(fleet, 2)
    fleet.until(
        lambda: [each.image_id for each in fleet.nodes(PoolNodeState.READY).values()] == [newer],
        "the ready node has the newer image",
        60.0,
    )
    fleet.until(
        lambda: [each["image"] for each in fleet.machines("north")] == ["image-2"], "the former machine is gone"
    )
    assert len(fleet.nodes()) == 1
    assert fleet.calls("north").count("create") == 2


@pytest.mark.long
def test_the_next_attempt_of_a_launch_has_the_newer_image(fleet: LauncherFleet) -> None:
    start(fleet)
    request = fleet.request("small")
    fleet.until(lambda: fleet.machines("north"), "the machine boots")
    newer = publish(fleet, 2)
    (first,) = (fleet.folder / "clouds" / "north" / "machines").glob("*.json")
    first.unlink()
    (node,) = fleet.fulfilled(request, 60.0)
    (machine,) = fleet.machines("north")
    assert (node.image_id, machine["image"]) == (newer, "image-2")

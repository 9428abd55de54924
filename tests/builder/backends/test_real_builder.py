"""Real images of Debian 12, built by a builder, uploaded to a directory and to a real container engine, and started there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from nodepool_ocb.model.images import UploadState
from nodepool_ocb.model.records import Json
from nodepool_ocb.testing.engine import Engine, why_not
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb_builder import backends
from tests.builder.fleet_of_builders import BuilderFleet, spoiled

BUILD_SECONDS = 1500.0

pytestmark = pytest.mark.long


def built(builders: BuilderFleet, image: dict[str, Json]) -> None:
    """The image is ready, and everywhere, within its time; what it took is in the test's output."""
    name = str(image["name"])
    builders.until_ready(name, seconds=BUILD_SECONDS)
    (build,) = builders.view(name).ready()
    print(name, f"{build.record.state_time - build.record.started:.0f} s", json.dumps(build.record.checksums))
    builders.until(lambda: len(builders.uploads(name, UploadState.READY)) == 2, "it is at both providers", 600.0)
    assert not spoiled(builders)


def started(engine: Engine, builders: BuilderFleet, image: str) -> str:
    """What a container of the uploaded image says of its system."""
    uploads = [each for build in builders.view(image).ready() for each in build.uploads if each.provider == "dock"]
    run = ["docker", "--host", engine.url, "run", "--rm", "--network", "none", str(uploads[0].record.external_id)]
    return subprocess.run([*run, "cat", "/etc/os-release"], capture_output=True, text=True, check=True).stdout


def test_debian_12_by_mmdebstrap_and_by_diskimage_builder_is_built_uploaded_and_started(builders: BuilderFleet) -> None:
    if reason := why_not():
        pytest.skip(f"no container engine: {reason}")
    path = backends.search_path()
    if not all(shutil.which(program, path=path) for program in ("mmdebstrap", "disk-image-create", "qemu-img")):
        pytest.skip("diskimage-builder or qemu-img is not there; tools/setup --images installs them")
    packages, security = mirror("debian"), mirror("debian-security")
    if not (packages and security):
        pytest.skip(
            "apt knows no mirror here; NODEPOOL_OCB_TEST_MIRROR and NODEPOOL_OCB_TEST_SECURITY_MIRROR name them"
        )
    plain: dict[str, Json] = {
        "name": "plain",
        "backend": "mmdebstrap",
        "release": "bookworm",
        "formats": ["tar"],
        "options": {"mirror": packages},
    }
    minimal: dict[str, Json] = {
        "name": "minimal",
        "elements": ["debian-minimal"],
        "release": "bookworm",
        "formats": ["tar", "qcow2"],
        "env-vars": {
            "DIB_DISTRIBUTION_MIRROR": packages,
            "DIB_DEBIAN_SECURITY_MIRROR": security,
        },
    }
    with Engine() as engine:
        names = ("plain", "minimal")
        dock = builders.provider("dock", *names, driver="docker", format="tar") | {"url": engine.url}
        del dock["directory"]
        builder = builders.builder(plain, minimal, providers=[builders.provider("shelf", *names, format="tar"), dock])
        builder.start()
        try:
            for image in (plain, minimal):
                built(builders, image)
                assert "VERSION_CODENAME=bookworm" in started(engine, builders, str(image["name"]))
        finally:
            builder.close(30.0)
    assert os.listdir(builder.images)
    assert not [path for path in Path("/proc/mounts").read_text().split() if str(builder.images) in path]

"""Real images of Debian, by the real mmdebstrap and the real diskimage-builder, from the mirror that apt uses here.

NODEPOOL_OCB_TEST_MIRROR names another one, NODEPOOL_OCB_TEST_SECURITY_MIRROR that of its security updates.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.images.nodepool import Diskimage
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import BuildTask
from nodepool_ocb_builder.sandbox import leftovers
from tests.builder.sandbox.building import Builder, Context

SUITE = "bookworm"
TIMEOUT_SECONDS = 1800.0


def required(kind: str) -> str:
    return mirror(kind) or pytest.skip(f"apt knows no mirror of {kind} here; NODEPOOL_OCB_TEST_MIRROR names one")


def begin(context: Context, image: Diskimage) -> tuple[Builder, BuildTask]:
    """Start a build whose files, cache and manifest go to the folder of the logs."""
    backend = backends.installed()[0][image.backend]
    assert backends.faults(image, {image.backend: backend}) == []
    if missing := backends.missing(backend):
        pytest.skip(f"{image.backend}: {missing}; tools/setup --images installs them")
    folder = context.images / "logs"
    folder.mkdir(exist_ok=True)
    os.chown(folder, context.user.pw_uid, context.user.pw_gid)
    task = BuildTask(
        image=image,
        build="0000000001",
        work=context.images / "debian-0000000001.build",
        outputs={format: folder / f"new.{format}" for format in image.formats},
        manifest=folder / "new.d",
    )
    command = backend.command(task)
    env = {**command.env, "DIB_IMAGE_CACHE": str(folder / "cache"), "DIB_LOCKFILES": str(folder / "cache/locks")}
    return context.begin_command(command.argv, env, TIMEOUT_SECONDS), task


def build(context: Context, image: Diskimage) -> dict[str, Path]:
    """The image's files and its manifest, which are there as long as the test runs."""
    builder, task = begin(context, image)
    with builder:
        assert builder.ended() == (0, None), "\n".join(builder.lines()[-40:])
    print({format: file.stat().st_size for format, file in task.outputs.items()}, builder.lines()[-1])
    return {**task.outputs, "manifest": task.manifest}


def debian_minimal(context: Context) -> Diskimage:
    if context.flavour != "root":
        pytest.skip("diskimage-builder needs root, or a user with sudo for everything")
    if shutil.which("disk-image-create", path=backends.search_path()) is None or shutil.which("qemu-img") is None:
        pytest.skip("diskimage-builder or qemu-img is not there; tools/setup --images installs them")
    environment = {
        "DIB_DISTRIBUTION_MIRROR": required("debian"),
        "DIB_DEBIAN_SECURITY_MIRROR": required("debian-security"),
    }
    keys: dict[str, Any] = {"env_vars": environment, "formats": ("qcow2", "tar")}
    return Diskimage(name="debian", elements=("debian-minimal",), release=SUITE, **keys)


def at_home(work: Path) -> list[int]:
    """The processes of the build itself; those that clear it away have another environment."""
    return [pid for pid in leftovers.processes(work) if leftovers.marked(pid, f"HOME={work}".encode())]


def is_bookworm(tar: Path) -> bool:
    with tarfile.open(tar) as root:
        names = root.getnames()
        text = root.extractfile(next(name for name in names if name.endswith("usr/lib/os-release")))
        assert text is not None
        return SUITE in text.read().decode() and any(name.endswith("bin/bash") for name in names)


@pytest.mark.long
def test_mmdebstrap_makes_every_format(context: Context) -> None:
    if context.flavour == "user":
        pytest.skip("mmdebstrap calls newuidmap: an ordinary user's builds have no user namespace around them")
    if context.flavour == "bare" and context.user.pw_name not in Path("/etc/subuid").read_text():
        pytest.skip(f"{context.user.pw_name} has no subordinate ids: mmdebstrap needs root or these")
    wanted = {"tar2sqfs": "squashfs", "genext2fs": "ext2"}
    formats = ("tar", *(format for program, format in wanted.items() if shutil.which(program)))
    options = {"mirror": required("debian"), "include": ["ca-certificates"]}
    keys: dict[str, Any] = {"elements": (), "env_vars": {}}
    made = build(
        context,
        Diskimage(name="debian", backend="mmdebstrap", release=SUITE, formats=formats, options=options, **keys),
    )
    assert is_bookworm(made["tar"])
    assert "Package: ca-certificates\n" in (made["manifest"] / "dpkg-status").read_text()
    if "squashfs" in made:
        assert made["squashfs"].read_bytes()[:4] == b"hsqs"
    if "ext2" in made:
        subprocess.run(["/sbin/e2fsck", "-fn", str(made["ext2"])], check=True, capture_output=True)


@pytest.mark.long
def test_diskimage_builder_makes_tar_and_qcow2(context: Context) -> None:
    made = build(context, debian_minimal(context))
    assert is_bookworm(made["tar"])
    done = subprocess.run(
        ["qemu-img", "info", "--output=json", str(made["qcow2"])], capture_output=True, text=True, check=True
    )
    info = json.loads(done.stdout)
    assert info["format"] == "qcow2"
    assert info["virtual-size"] > 1 << 29
    assert any(made["manifest"].rglob("*"))


@pytest.mark.long
def test_a_killed_builder_leaves_nothing_of_diskimage_builder(context: Context, until: Callable[..., None]) -> None:
    builder, task = begin(context, debian_minimal(context))
    with builder:
        until(lambda: leftovers.loops(task.work), TIMEOUT_SECONDS)
        builder.program.kill()
        until(lambda: not at_home(task.work) and not leftovers.loops(task.work), 5.0)
        until(lambda: not context.left(), 120.0)  # a large folder takes its time

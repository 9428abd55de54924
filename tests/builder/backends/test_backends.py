"""What a task becomes with each backend, and what is refused before anything runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.images.nodepool import Diskimage
from nodepool_ocb_builder import backends
from nodepool_ocb_builder.backends import BuildTask, Command
from nodepool_ocb_builder.sandbox import isolation

INSTALLED, _ = backends.installed()


def image(**keys: Any) -> Diskimage:
    absent = {"elements": (), "release": None, "env_vars": {}, "formats": ("qcow2",), "options": {}}
    return Diskimage(**{**absent, "name": "debian", **keys})


def task(folder: Path, image: Diskimage, **keys: Any) -> BuildTask:
    work = folder / "debian-0000000007.build"
    outputs = {format: folder / f"new.{format}" for format in image.formats}
    return BuildTask(image=image, build="0000000007", work=work, outputs=outputs, manifest=folder / "new.d", **keys)


def command(image: Diskimage, folder: Path = Path("/images"), **keys: Any) -> Command:
    assert backends.faults(image, INSTALLED) == []
    return INSTALLED[image.backend].command(task(folder, image, **keys))


def build(folder: Path, image: Diskimage) -> tuple[isolation.Ended | None, list[str]]:
    """Run a backend's command; how it ended, and the log."""
    one = task(folder, image)
    one.work.mkdir()
    process = isolation.start(
        INSTALLED[image.backend].command(one), log=folder / "log", work=one.work, timeout_seconds=60.0
    )
    return process.wait(), (folder / "log").read_text().splitlines()


def program(folder: Path, name: str, script: str) -> Path:
    """A program that stands in for a large one."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


# -- what is refused --


@pytest.mark.parametrize(
    ("keys", "faults"),
    [
        (
            {"backend": "mmdebootstrap"},
            [
                "backend: there is no backend `mmdebootstrap`; did you mean `mmdebstrap`?; "
                "installed here: command, dib, mmdebstrap"
            ],
        ),
        (
            {"options": {"image-sise": 4, "trace": 3}},
            [
                "options: image-sise: unknown key `image-sise`; did you mean `image-size`?",
                "options: trace: must be at most 2, and is 3",
            ],
        ),
        (
            {"backend": "mmdebstrap", "options": {"variant": "minbas"}},
            [
                "options: variant: must be one of apt, buildd, essential, important, minbase, required, standard, "
                'and is text "minbas"; did you mean `minbase`?',
                "formats: backend mmdebstrap makes no qcow2; it makes tar, squashfs, ext2, pxe",
            ],
        ),
        ({"backend": "command"}, ["options: key `argv` is missing; add it"]),
        ({"backend": "command", "options": {"argv": []}}, ["options: argv: must have at least 1 item, and has 0"]),
    ],
)
def test_faults_are_sentences(keys: dict[str, Any], faults: list[str]) -> None:
    assert backends.faults(image(**keys), INSTALLED) == faults


def test_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert backends.missing(INSTALLED["command"]) == ""
    monkeypatch.setattr("nodepool_ocb_builder.backends.search_path", lambda: str(tmp_path))
    assert backends.missing(INSTALLED["dib"]) == "bash, sudo, losetup is not installed"


# -- dib --


def test_dib_is_told_what_nodepool_tells_it() -> None:
    one = image(
        elements=("debian-minimal", "vm"),
        release="bookworm",
        env_vars={"DIB_CHECKSUM": "1", "TMPDIR": "/opt/dib_tmp"},
        formats=("qcow2", "tar"),
    )
    made = command(one, elements_dir=("/etc/elements", "/opt/elements"))
    assert made.env == {
        "DIB_RELEASE": "bookworm",
        "DIB_IMAGE_NAME": "debian",
        "DIB_IMAGE_FILENAME": "debian-0000000007",
        "DIB_IMAGE_CACHE": "/images/.dib-cache",
        "DIB_LOCKFILES": "/images/.dib-cache/locks",
        "ELEMENTS_PATH": "/etc/elements:/opt/elements",
        "DIB_CHECKSUM": "1",
        "TMPDIR": "/opt/dib_tmp",
    }
    assert (
        "disk-image-create -x -t qcow2,tar --no-tmpfs -o /images/debian-0000000007.build/image "
        "--qemu-img-options compat=0.10 debian-minimal vm"
    ) in made.argv[-1].splitlines()


def test_dibs_options_are_its_arguments() -> None:
    options = {
        "compress": False,
        "image-extra-size": 1.5,
        "image-size": 4,
        "offline": True,
        "packages": ["vim", "less"],
        "qemu-img-options": "",
        "root-label": "a b",
        "skip-base": True,
        "trace": 0,
    }
    made = command(image(elements=("vm",), options=options, arch="aarch64", dib_cmd="/opt/dib"))
    assert (
        "/opt/dib -t qcow2 --no-tmpfs -o /images/debian-0000000007.build/image -a arm64 --image-size 4 "
        "--root-label 'a b' -u -n --offline -p vim,less vm"
    ) in made.argv[-1].splitlines()
    assert made.env["DIB_IMAGE_EXTRA_SIZE"] == "1.5"


def test_what_dib_makes_comes_to_its_place(tmp_path: Path) -> None:
    dib = program(
        tmp_path,
        "dib",
        'echo "$@"; while [ "$1" != -o ]; do shift; done; mkdir $2.d; echo list >$2.d/list\n'
        "for suffix in squash tar qcow2; do echo $suffix >$2.$suffix; done",
    )
    formats = ("qcow2", "squashfs", "tar", "tgz")
    ended, log = build(tmp_path, image(elements=("vm",), formats=formats, dib_cmd=str(dib)))
    assert ended == isolation.Ended(0, None)
    assert "-t squashfs,qcow2,tar " in log[0]
    made = {file.name: file.read_bytes() for file in tmp_path.glob("new.[!d]*")}
    assert made.pop("new.tgz").startswith(b"\x1f\x8b")
    assert made == {"new.squashfs": b"squash\n", "new.tar": b"tar\n", "new.qcow2": b"qcow2\n"}
    assert (tmp_path / "new.d" / "list").read_text() == "list\n"


def test_a_dib_cmd_may_have_arguments(tmp_path: Path) -> None:
    dib = program(tmp_path, "dib", 'echo "$1|$2|$3"; while [ "$1" != -o ]; do shift; done; echo made >$2.qcow2')
    ended, log = build(tmp_path, image(elements=("vm",), dib_cmd=f"env HOME=/root {dib} --logfile '/tmp/a b'"))
    assert (ended, log[0]) == (isolation.Ended(0, None), "--logfile|/tmp/a b|-x")


def test_a_dib_that_makes_no_file_fails(tmp_path: Path) -> None:
    ended, _ = build(tmp_path, image(elements=("vm",), dib_cmd=str(program(tmp_path, "dib", "true"))))
    assert ended == isolation.Ended(1, "exit status 1")


def test_a_dib_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    ended, log = build(tmp_path, image(elements=("vm",), dib_cmd="/no/such/dib"))
    assert ended == isolation.Ended(127, "exit status 127")
    assert log[0] == "/no/such/dib is not there: install diskimage-builder, or name it with dib-cmd"


# -- mmdebstrap --


def test_mmdebstrap_takes_the_release_for_its_suite() -> None:
    made = command(image(backend="mmdebstrap", release="bookworm", formats=("tar",), arch="x86_64"))
    assert made.argv[-1].splitlines() == [
        "mkdir -- /images/new.d",
        "mmdebstrap --verbose --format=tar --mode=auto --variant=minbase --architectures=amd64 "
        "'--customize-hook=download /var/lib/dpkg/status /images/new.d/dpkg-status' bookworm /images/new.tar",
    ]
    assert command(image(backend="mmdebstrap", formats=("tar",))).argv[-1].endswith(" stable /images/new.tar")


def test_mmdebstraps_options_are_its_arguments() -> None:
    options = {
        "suite": "trixie",
        "variant": "apt",
        "include": ["vim", "less"],
        "components": ["main", "contrib"],
        "mirror": ["deb http://a trixie main", "http://b"],
        "mode": "unshare",
        "customize-hooks": ['chroot "$1" passwd -d root'],
    }
    line = command(image(backend="mmdebstrap", formats=("tar",), options=options)).argv[-1].splitlines()[1]
    assert line == (
        "mmdebstrap --verbose --format=tar --mode=unshare --variant=apt --components=main,contrib --include=vim "
        "--include=less '--customize-hook=chroot \"$1\" passwd -d root' "
        "'--customize-hook=download /var/lib/dpkg/status /images/new.d/dpkg-status' "
        "trixie /images/new.tar 'deb http://a trixie main' http://b"
    )


def test_an_overlay_is_laid_over_the_root_and_keeps_its_links(tmp_path: Path) -> None:
    (tmp_path / "overlay/lib").mkdir(parents=True)
    (tmp_path / "overlay/lib/agent").write_text("agent")
    (tmp_path / "root/usr/lib").mkdir(parents=True)
    (tmp_path / "root/lib").symlink_to("usr/lib")
    (tmp_path / "root").chmod(0o750)
    options = {"overlays": [str(tmp_path / "overlay")]}
    line = command(image(backend="mmdebstrap", formats=("tar",), options=options)).argv[-1].splitlines()[1]
    (hook,) = [word for word in shlex.split(line) if word.startswith("--essential-hook=")]
    subprocess.run(["sh", "-euc", hook.partition("=")[2], "sh", str(tmp_path / "root")], check=True)
    assert (tmp_path / "root/usr/lib/agent").read_text() == "agent"
    assert (tmp_path / "root/lib").is_symlink()
    assert (tmp_path / "root").stat().st_mode & 0o777 == 0o750


# -- pxe --

NO_KERNEL = "format pxe needs a kernel and an initrd in /boot: include linux-image-amd64 and initramfs-tools"


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, members: Sequence[str]) -> None:
    """A program mmdebstrap, which makes a tar with these files."""
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not there: tools/setup installs squashfs-tools")
    script = (
        f'mkdir -p root/boot root/usr; cd root; for each in {" ".join(members)}; do echo "$each" >"$each"; done\n'
        'while [ "$1" != stable ]; do shift; done; tar -cf "$2" .'
    )
    program(folder, "mmdebstrap", script)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_boot_from_the_network_is_one_tar_with_its_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("boot/vmlinuz-6.1.0-9-amd64", "boot/vmlinuz-6.1.0-10-amd64", "boot/initrd.img-6.1.0-10-amd64", "usr/x")
    stand_in(tmp_path, monkeypatch, names)
    ended, log = build(tmp_path, image(backend="mmdebstrap", formats=("tar", "pxe")))
    assert ended == isolation.Ended(0, None), log
    with tarfile.open(tmp_path / "new.pxe") as tar:
        assert tar.getnames() == ["SHA256SUMS", "vmlinuz", "initrd", "root.squashfs"]
        tar.extractall(tmp_path / "boot", filter="data")
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "boot", check=True)
    assert (tmp_path / "boot/vmlinuz").read_text() == "boot/vmlinuz-6.1.0-10-amd64\n"  # the newest
    initrd = b"boot/initrd.img-6.1.0-10-amd64\n\0"
    assert (tmp_path / "boot/initrd").read_bytes() == initrd, "the archive behind it begins at a multiple of four bytes"
    root = subprocess.run(
        ["unsquashfs", "-lls", str(tmp_path / "boot/root.squashfs")], capture_output=True, text=True, check=True
    ).stdout
    assert "squashfs-root/usr/x" in root
    assert "vmlinuz" not in root
    assert re.search(r"^drwxr-xr-x root/root .* squashfs-root$", root, re.MULTILINE)
    with tarfile.open(tmp_path / "new.tar") as tar:
        assert "./boot/vmlinuz-6.1.0-10-amd64" in tar.getnames()


def test_a_root_without_a_kernel_boots_from_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, ("usr/x",))
    ended, log = build(tmp_path, image(backend="mmdebstrap", formats=("pxe",)))
    assert ended == isolation.Ended(1, "exit status 1")
    assert NO_KERNEL in log


@pytest.mark.parametrize("formats", [("pxe",), ("squashfs", "pxe")])
def test_dibs_kernel_initrd_and_squashfs_are_a_boot_from_the_network(tmp_path: Path, formats: tuple[str, ...]) -> None:
    dib = program(
        tmp_path,
        "dib",
        'while [ "$1" != -o ]; do shift; done; for each in vmlinuz initrd squash; do echo $each >$2.$each; done',
    )
    one = image(elements=("debian-minimal", "baremetal"), formats=formats, dib_cmd=str(dib))
    ended, log = build(tmp_path, one)
    assert ended == isolation.Ended(0, None), log
    with tarfile.open(tmp_path / "new.pxe") as tar:
        assert tar.getnames() == ["SHA256SUMS", "vmlinuz", "initrd", "root.squashfs"]
        assert tar.getmember("initrd").size == len("initrd\n") + 1
    assert (tmp_path / "new.squashfs").exists() == ("squashfs" in formats)


def test_a_dib_without_the_element_baremetal_is_told_of_it(tmp_path: Path) -> None:
    dib = program(tmp_path, "dib", 'while [ "$1" != -o ]; do shift; done; echo squash >$2.squash')
    ended, log = build(tmp_path, image(elements=("debian-minimal",), formats=("pxe",), dib_cmd=str(dib)))
    assert ended == isolation.Ended(1, "exit status 1")
    assert "format pxe needs a kernel and an initrd: add the element baremetal" in log


# -- command --


def test_a_command_makes_its_image_by_what_it_is_told(tmp_path: Path) -> None:
    script = (
        'set -e; for format in $NODEPOOL_OCB_FORMATS; do eval "output=\\$NODEPOOL_OCB_OUTPUT_$format"; '
        'echo $NODEPOOL_OCB_IMAGE $NODEPOOL_OCB_BUILD $COLOUR >"$output"; done; '
        'mkdir $NODEPOOL_OCB_MANIFEST; [ "$PWD" = "$NODEPOOL_OCB_WORK" ]'
    )
    options = {"argv": ["sh", "-c", script]}
    one = image(backend="command", formats=("A", "B"), options=options, env_vars={"COLOUR": "blue"})
    assert build(tmp_path, one)[0] == isolation.Ended(0, None)
    assert (tmp_path / "new.A").read_text() == (tmp_path / "new.B").read_text() == "debian 0000000007 blue\n"
    assert sorted(os.listdir(tmp_path)) == ["log", "new.A", "new.B", "new.d"]


def test_backends_of_other_packages_may_import_the_build_task_as_task() -> None:
    assert backends.Task is backends.backend.Task is BuildTask

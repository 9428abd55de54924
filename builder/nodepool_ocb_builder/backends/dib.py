"""Backend ``dib``: diskimage-builder, with the inputs that Nodepool gives it.

The same as in Nodepool: elements, formats, release (DIB_RELEASE), dib-cmd, elements-dir (ELEMENTS_PATH), DIB_IMAGE_NAME,
DIB_IMAGE_FILENAME, ``--no-tmpfs``, and qcow2 in the form that old clouds take. Also env-vars, which override all
variables that are set here, TMPDIR and DIB_IMAGE_CACHE among them. Different: the builder computes the checksums. The
temporary folders are removed with the build, also if TMPDIR puts them elsewhere. The cache is in the image directory, not
in a home directory, unless DIB_IMAGE_CACHE names another.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.images.nodepool import Diskimage
from nodepool_ocb.model.records import Json
from nodepool_ocb_builder.backends import pxe
from nodepool_ocb_builder.backends.backend import BuildTask, Command

CONVERTED: Final = ("qcow2", "vdi", "vhdx", "vmdk")  # by qemu-img
FORMATS: Final = ("qcow2", "raw", "squashfs", "tar", "tgz", "vdi", "vhd", "vhdx", "vmdk", pxe.FORMAT)
OLD_QCOW2: Final = "compat=0.10"

_NUMBER: Final[Json] = {"type": "number", "exclusiveMinimum": 0}
_TEXT: Final[Json] = {"type": "string", "minLength": 1}
SCHEMA: Final[Json] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "compress": {"type": "boolean"},
        "image-extra-size": _NUMBER,
        "image-size": _NUMBER,
        "install-type": {"enum": ["package", "source"]},
        "max-online-resize": {"type": "integer", "minimum": 1},
        "mkfs-options": _TEXT,
        "offline": {"type": "boolean"},
        "packages": {"type": "array", "items": _TEXT},
        "qemu-img-options": {"type": "string"},
        "root-label": _TEXT,
        "skip-base": {"type": "boolean"},
        "trace": {"type": "integer", "minimum": 0, "maximum": 2},
    },
}
#: Options that are disk-image-create's under the same name, with a value.
_VALUES: Final = ("image-size", "install-type", "max-online-resize", "mkfs-options", "root-label")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "ppc64le": "ppc64el"}


class DibBackend:
    """Calls disk-image-create."""

    formats = FORMATS
    needs = ("bash", "sudo", "losetup")  # it calls sudo also as root

    def faults(self, options: Mapping[str, Json]) -> list[str]:
        return faults_in_value(SCHEMA, dict(options))

    def command(self, task: BuildTask) -> Command:
        return Command(
            argv=("/bin/sh", "-euc", _script(task)),
            env=_environment(task),
            cwd=task.work,
            calls_setuid=True,
        )


def _environment(task: BuildTask) -> dict[str, str]:
    image = task.image
    cache = task.work.parent / ".dib-cache"
    env = {
        "DIB_IMAGE_CACHE": str(cache),
        "DIB_IMAGE_NAME": image.name,
        "DIB_IMAGE_FILENAME": f"{image.name}-{task.build}",
    }
    if image.release is not None:
        env["DIB_RELEASE"] = image.release
    if task.elements_dir:
        env["ELEMENTS_PATH"] = ":".join(task.elements_dir)
    if "image-extra-size" in image.options:
        env["DIB_IMAGE_EXTRA_SIZE"] = str(image.options["image-extra-size"])  # its option of this name does not work
    env |= image.env_vars
    env.setdefault("DIB_LOCKFILES", f"{env['DIB_IMAGE_CACHE']}/locks")  # beside the files that they guard
    return env


def _script(task: BuildTask) -> str:
    """Have it make all files in the work folder, then move them to where they are wanted."""
    made = task.work / "image"
    create = shlex.join(_create(task.image, made))
    program = shlex.quote(shlex.split(task.image.dib_cmd)[0])
    lines = [
        f"command -v {program} >/dev/null || {{",
        f"    echo {program} 'is not there: install diskimage-builder, or name it with dib-cmd' >&2; exit 127",
        "}",
        create,
    ]
    if "tgz" in task.outputs:
        lines.append(f'"${{DIB_GZIP_BIN:-gzip}}" -9 <{made}.tar >{made}.tgz'.replace(str(made), shlex.quote(str(made))))
    if pxe.FORMAT in task.outputs:
        lines += _boot(made, task.outputs[pxe.FORMAT], keep="squashfs" in task.outputs)
    for format, output in task.outputs.items():
        if format == pxe.FORMAT:
            continue
        suffix = "squash" if format == "squashfs" else format
        lines.append(shlex.join(["mv", "--", f"{made}.{suffix}", str(output)]))
    manifest = shlex.join(["mv", "--", f"{made}.d", str(task.manifest)])
    lines.append(f"if [ -d {shlex.quote(f'{made}.d')} ]; then {manifest}; fi")
    return "\n".join(lines)


def _boot(made: Path, output: Path, keep: bool) -> Iterator[str]:
    """The network boot: kernel and initrd by the element `baremetal`, and the squashfs, which stays if ``keep``."""
    kernel, initrd, folder = shlex.quote(f"{made}.vmlinuz"), shlex.quote(f"{made}.initrd"), made.parent / "pxe"
    yield f"[ -e {kernel} ] && [ -e {initrd} ] || {{"
    yield "    echo 'format pxe needs a kernel and an initrd: add the element baremetal' >&2; exit 1"
    yield "}"
    yield shlex.join(["mkdir", "--", str(folder)])
    yield f"mv -- {kernel} {shlex.quote(str(folder / pxe.KERNEL))}"
    yield f"mv -- {initrd} {shlex.quote(str(folder / pxe.INITRD))}"
    yield shlex.join(["cp" if keep else "mv", "--", f"{made}.squash", str(folder / pxe.ROOT)])
    yield from pxe.packed(folder, output)


def _create(image: Diskimage, made: Path) -> Iterator[str]:
    options: Mapping[str, Any] = image.options
    yield from shlex.split(image.dib_cmd)  # it may have arguments
    yield from ["-x"] * options.get("trace", 1)
    yield from ("-t", ",".join(_asked(image.formats)), "--no-tmpfs", "-o", str(made))
    if image.arch is not None:
        yield from ("-a", _ARCHITECTURES.get(image.arch, image.arch))
    for name in _VALUES:
        if name in options:
            yield from (f"--{name}", str(options[name]))
    converted = [format for format in image.formats if format in CONVERTED]
    if qemu := options.get("qemu-img-options", OLD_QCOW2 if converted == ["qcow2"] else ""):
        yield from ("--qemu-img-options", qemu)
    for name, flag, when in (("compress", "-u", False), ("skip-base", "-n", True), ("offline", "--offline", True)):
        if options.get(name) is when:
            yield flag
    if packages := options.get("packages"):
        yield from ("-p", ",".join(packages))
    yield from image.elements


def _asked(formats: tuple[str, ...]) -> list[str]:
    """The formats to ask for: it makes squashfs only if that comes first, and deletes the tar from which it made a tgz.

    >>> _asked(("qcow2", "squashfs", "tar", "tgz")), _asked(("pxe",))
    (['squashfs', 'qcow2', 'tar'], ['squashfs'])
    """
    made_of = {"tgz": "tar", pxe.FORMAT: "squashfs"}
    asked = dict.fromkeys(made_of.get(format, format) for format in formats)
    return sorted(asked, key=lambda format: format != "squashfs")

"""Backend ``mmdebstrap``: Debian and Ubuntu root file systems in half a minute, without root where the machine allows.

It makes root file systems (tar, squashfs, ext2) and network boots of them (pxe), not disks: no partitions, no boot loader.
The image's ``release`` is the suite unless option ``suite`` says otherwise, and ``elements`` mean nothing. The list of
packages is in the manifest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.model.records import Json
from nodepool_ocb_builder.backends import pxe
from nodepool_ocb_builder.backends.backend import BuildTask, Command

FORMATS: Final = ("tar", "squashfs", "ext2", pxe.FORMAT)

_TEXT: Final[Json] = {"type": "string", "minLength": 1}
_LIST: Final[Json] = {"type": "array", "items": _TEXT}
SCHEMA: Final[Json] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "aptopts": _LIST,
        "components": _LIST,
        "customize-hooks": _LIST,
        "dpkgopts": _LIST,
        "essential-hooks": _LIST,
        "include": _LIST,
        "keyring": _TEXT,
        "mirror": {"anyOf": [_TEXT, {**_LIST, "minItems": 1}]},
        "mode": {"enum": ["auto", "root", "unshare", "fakeroot", "fakechroot", "sudo"]},
        "overlays": _LIST,
        "setup-hooks": _LIST,
        "suite": _TEXT,
        "variant": {"enum": ["apt", "buildd", "essential", "important", "minbase", "required", "standard"]},
    },
}
DEFAULT_SUITE: Final = "stable"
#: Options that are lists, and the option of mmdebstrap for each item.
_EACH: Final = {
    "aptopts": "--aptopt",
    "dpkgopts": "--dpkgopt",
    "include": "--include",
    "setup-hooks": "--setup-hook",
    "essential-hooks": "--essential-hook",
    "customize-hooks": "--customize-hook",
}
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf", "i686": "i386", "ppc64le": "ppc64el"}
#: From the tar to another format; ext2 gets a fifth more room than its content, and 8 MiB.
_CONVERSIONS: Final = {
    "squashfs": "tar2sqfs --quiet --no-skip --exportable --compressor xz --block-size 1048576 {output} <{tar}",
    "ext2": "genext2fs -B 1024 -b $(($(stat -c %s {tar}) * 6 / 5120 + 8192)) -i 16384 -a - {output} <{tar}",
}
_CONVERTERS: Final = {
    "squashfs": ("tar2sqfs", "squashfs-tools-ng"),
    "ext2": ("genext2fs", "genext2fs"),
    pxe.FORMAT: pxe.NEEDS,
}
#: Lays a folder over the root: root owns all of it, and links such as /lib stay links.
_OVERLAY: Final = (
    "tar -C {folder} --create --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --sort=name ."
    ' | tar -C "$1" --extract --keep-directory-symlink --no-overwrite-dir'
)


class MmdebstrapBackend:
    """Calls mmdebstrap once, and makes the other formats from its tar."""

    formats = FORMATS
    needs = ("mmdebstrap",)

    def faults(self, options: Mapping[str, Json]) -> list[str]:
        return faults_in_value(SCHEMA, dict(options))

    def command(self, task: BuildTask) -> Command:
        return Command(
            argv=("/bin/sh", "-euc", "\n".join(_script(task))),
            env=dict(task.image.env_vars),
            cwd=task.work,
            calls_setuid=True,  # newuidmap
        )


def _script(task: BuildTask) -> Iterator[str]:
    others = [format for format in task.outputs if format != "tar"]
    tar = task.outputs.get("tar", task.work / "image.tar")
    for format in others:
        program, package = _CONVERTERS[format]
        yield f"command -v {program} >/dev/null || {{ echo '{format} needs {program}: install {package}' >&2; exit 127; }}"
    yield shlex.join(["mkdir", "--", str(task.manifest)])
    yield shlex.join([*_options(task), *_positional(task, str(tar))])
    if pxe.FORMAT in others:
        folder = task.work / "pxe"
        yield from pxe.from_tar(Path(tar), folder)
        yield from pxe.packed(folder, task.outputs[pxe.FORMAT])
    for format in others:
        if format == pxe.FORMAT:
            continue
        output = shlex.quote(str(task.outputs[format]))
        yield _CONVERSIONS[format].format(output=output, tar=shlex.quote(str(tar)))


def _options(task: BuildTask) -> Iterator[str]:
    options: Mapping[str, Any] = task.image.options
    yield from ("mmdebstrap", "--verbose", "--format=tar", f"--mode={options.get('mode', 'auto')}")
    yield f"--variant={options.get('variant', 'minbase')}"
    if task.image.arch is not None:
        yield f"--architectures={_ARCHITECTURES.get(task.image.arch, task.image.arch)}"
    if components := options.get("components"):
        yield f"--components={','.join(components)}"
    if keyring := options.get("keyring"):
        yield f"--keyring={keyring}"
    for folder in options.get("overlays", ()):  # before the packages of `include`: their scripts see the files
        yield f"--essential-hook={_OVERLAY.format(folder=shlex.quote(folder))}"
    for name, flag in _EACH.items():
        yield from (f"{flag}={item}" for item in options.get(name, ()))
    packages = shlex.quote(str(task.manifest / "dpkg-status"))
    yield f"--customize-hook=download /var/lib/dpkg/status {packages}"


def _positional(task: BuildTask, tar: str) -> Iterator[str]:
    options: Mapping[str, Any] = task.image.options
    yield from (str(options.get("suite") or task.image.release or DEFAULT_SUITE), tar)
    mirror = options.get("mirror", ())
    yield from [mirror] if isinstance(mirror, str) else mirror

"""Nodepool's own configuration, with a few keys of this product: the images to build, and their uploads (docs/images.md).

A nodepool.yaml works as it is: the keys and the defaults are Nodepool's, and so is the secure file that is laid over it. A
loaded configuration has been checked whole; no later check follows. Provider sections of drivers other than openstack are
accepted as they are written; the driver checks its own keys. A relative file name counts from the file's directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import TlsSettings, ZooKeeperSettings
from nodepool_ocb.documents.plainyaml import Key
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import dialect, faults
from nodepool_ocb.images.dialect import NodepoolDocument
from nodepool_ocb.images.diskimages import FORMAT, LONGEST_SECONDS, Keys, first_format, made, merged, texts
from nodepool_ocb.images.diskimages import Diskimage as Diskimage
from nodepool_ocb.images.faults import LAUNCH_KEYS, OPENSTACK, PROVIDER_KEYS
from nodepool_ocb.model.records import Json

#: Driver → format, if the provider names none.
TAKES: Final = {"openstack": "qcow2", "ibmvpc": "qcow2", "aws": "raw", "azure": "vhd", "docker": "tar"}
ANY: Final = frozenset({"admin-node", "local"})  # drivers that take each image in its own first format
OVERLAYS: Final = "overlays"  # the option of images that names folders
PORT: Final = 2281  # of a ZooKeeper server, where none is given
#: The keys of an image of a provider that have fields of their own.
IMAGE_KEYS: Final = frozenset({"name", "pause", "meta"})

#: The keys of a label that have fields of their own.
LABEL_KEYS: Final = frozenset({"name", "min-ready", "max-ready-age"})
SECTIONS: Final = ("diskimages", "providers", "labels", "tenant-resource-limits", "max-hold-age")  # with lines

#: The format that a provider of this driver, with these options, takes as the driver says; None: not known.
Takes = Callable[[str, Mapping[str, Json]], str | None]


class ProviderImage(msgspec.Struct, frozen=True, kw_only=True):
    """A diskimage that a provider has."""

    name: str
    pause: bool = False  # no new uploads
    meta: Mapping[str, str] = {}
    format: str = FORMAT  # in which this provider gets this image
    options: Mapping[str, Json] = {}  # all other keys


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A service to which images are uploaded."""

    name: str
    driver: str = OPENSTACK
    diskimages: tuple[ProviderImage, ...] = ()
    image_upload_timeout_seconds: float = 3600.0
    post_upload_hook: str | None = None  # a program that judges each upload
    upload_workers: int | None = None  # uploads to it at a time; None: as many as the builders do
    format: str = FORMAT  # of images that name no other
    options: Mapping[str, Json] = {}  # all other keys, as they are written
    launch: Mapping[str, Json] = {}  # the keys of LAUNCH_KEYS, as they are written: for launchers alone


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of machine that a launcher offers."""

    name: str
    min_ready: int = 0
    max_ready_age_seconds: float = 0.0  # 0: any age
    options: Mapping[str, Json] = {}  # all other keys, as they are written


class Nodepool(msgspec.Struct, frozen=True, kw_only=True):
    """The content of nodepool.yaml. Abstract diskimages are merged away."""

    elements_dir: tuple[str, ...] = ()
    images_dir: str | None = None
    build_log_dir: str | None = None
    build_log_retention: int = 7  # logs of an image to keep, at least one; below 0: all
    zookeeper: ZooKeeperSettings | None = None
    diskimages: tuple[Diskimage, ...] = ()
    providers: tuple[Provider, ...] = ()
    labels: tuple[Label, ...] = ()
    tenant_limits: tuple[Mapping[str, Json], ...] = ()  # `tenant-resource-limits`, as it is written
    max_hold_age_seconds: float = 0.0  # 0: any age
    lines: Mapping[str, int] = {}  # where each part of SECTIONS is written, by its path
    warnings: tuple[str, ...] = ()  # oddities that are no faults: ``FILE:LINE: PATH: sentence``

    def line(self, path: str) -> int:
        """The line of a path such as ``providers[NAME].pools[POOL].priority``; that of its section where it is not written."""
        return self.lines.get(path) or self.lines.get(path[: path.find("]") + 1], 1)


def load(
    path: Path | str,
    secure: Path | str | None = None,
    *,
    environ: Mapping[str, str],
    takes: Takes = lambda _driver, _options: None,
) -> Nodepool:
    """The content of a nodepool.yaml, with the secure file laid over it; ``takes`` gives the format if the file names none.

    Raises Invalid with every fault of both: ``FILE:LINE: PATH: sentence``.
    """
    path = Path(path)
    source = dialect.load(path, "nodepool.json", environ)
    problems = source.problems(faults.of(source))
    secrets: Json = {}
    warnings = source.warnings
    if secure is not None:
        above = dialect.load(Path(secure), "nodepool-secure.json", environ)
        problems += above.problems(faults.of_secrets(above, source), secret=True)
        warnings += above.warnings
        secrets = {key: value for key, value in (above.document.value or {}).items() if value}  # none replace nothing
    if problems:
        raise Invalid(problems)
    value = _anchored(source.document.value or {}, path.resolve().parent)
    made = _made(value, _anchored(secrets, Path(secure or path).resolve().parent), takes)
    made = replace(made, lines=_lines(source))
    return replace(made, warnings=(*warnings, *_unbuilt(path, made)))


def _unbuilt(path: Path, read: Nodepool) -> Iterator[str]:
    """Warnings for images with elements that are not built."""
    for image in read.diskimages:
        if image.stub and image.elements:
            where = f"diskimages[{image.name}]"
            why = "is not built: it has no formats, and no provider takes it; add `formats` to have it built"
            yield f"{path}:{read.line(where)}: {where}: {why}"


def _lines(source: NodepoolDocument) -> dict[str, int]:
    """The lines for the faults that only backends and drivers can find."""
    value = source.document.value or {}
    return {source.document.path(key): source.line(key) for section in SECTIONS for key in _keys(value, section)}


def _keys(value: Json, section: str) -> Iterator[Key]:
    """The keys of a section, at every level, in their order: of two paths with the same names the later line counts."""
    waiting: list[tuple[Key, Json]] = [((section,), value[section])] if value.get(section) is not None else []
    while waiting:
        key, value = waiting.pop()
        yield key
        if isinstance(value, dict | list):
            below = list(value.items() if isinstance(value, dict) else enumerate(value))
            waiting += [((*key, step), each) for step, each in reversed(below)]


def _anchored(value: Mapping[str, Json], folder: Path) -> dict[str, Json]:
    """Relative file names made absolute."""

    def absolute(name: str) -> str:
        return str(folder / Path(name).expanduser())

    def hooked(section: Mapping[str, Json]) -> Mapping[str, Json]:
        hook = section.get("post-upload-hook", "")
        return {**section, "post-upload-hook": absolute(hook)} if "/" in hook else section

    def built(section: Mapping[str, Json]) -> Mapping[str, Json]:
        options = section.get("options")
        if isinstance(options, Mapping) and isinstance(options.get(OVERLAYS), list):
            folders = [absolute(each) if isinstance(each, str) else each for each in options[OVERLAYS]]
            section = {**section, "options": {**options, OVERLAYS: folders}}
        program, *words = shlex.split(section.get("dib-cmd", "")) or [""]  # a program without "/" is found by PATH
        return {**section, "dib-cmd": shlex.join([absolute(program), *words])} if "/" in program else section

    known: dict[str, Callable[[Json], Json]] = {
        "elements-dir": lambda names: [absolute(name) for name in names.split(":") if name],
        "images-dir": absolute,
        "build-log-dir": absolute,
        "diskimages": lambda sections: [built(section) for section in sections or []],
        "providers": lambda sections: [hooked(section) for section in sections or []],
        "zookeeper-tls": lambda files: {name: absolute(file) for name, file in files.items()},
    }
    return {key: known[key](each) if key in known else each for key, each in value.items() if each != ""}


def _made(value: Mapping[str, Json], secrets: Mapping[str, Json], takes: Takes) -> Nodepool:
    built = merged({image["name"]: image for image in value.get("diskimages") or []})
    above = {provider["name"]: provider for provider in secrets.get("providers") or []}
    providers = [
        _provider(_deeply({"driver": OPENSTACK, **section}, above.get(section["name"], {})), built, takes)
        for section in value.get("providers") or []
    ]
    secret = {image["name"]: texts(image["env-vars"]) for image in secrets.get("diskimages") or []}
    images = (made(name, keys, _taken(name, providers)) for name, keys in built.items())
    return Nodepool(
        elements_dir=tuple(value.get("elements-dir", ())),
        images_dir=value.get("images-dir"),
        build_log_dir=value.get("build-log-dir"),
        build_log_retention=value.get("build-log-retention", 7),
        zookeeper=_zookeeper(_deeply(value, secrets)),
        diskimages=tuple(replace(each, env_vars={**each.env_vars, **secret.get(each.name, {})}) for each in images),
        providers=tuple(providers),
        labels=tuple(_label(section) for section in value.get("labels") or []),
        tenant_limits=tuple(value.get("tenant-resource-limits") or ()),
        max_hold_age_seconds=max(0.0, float(value.get("max-hold-age", 0))),
    )


def _provider(section: Mapping[str, Json], built: Mapping[str, Keys], takes: Takes) -> Provider:
    options = {key: value for key, value in section.items() if key not in PROVIDER_KEYS | LAUNCH_KEYS}
    format: str | None = section.get("format", section.get("image-format"))
    if format is None and section.get("diskimages"):
        format = takes(section["driver"], options)
    format = format or TAKES.get(section["driver"])
    anything = format is None and section["driver"] in ANY

    def image(item: Mapping[str, Json]) -> ProviderImage:
        own = first_format(built.get(item["name"], {}))
        return ProviderImage(
            name=item["name"],
            pause=item.get("pause", False),
            meta=texts(item.get("meta", {})),
            format=own if anything else format or FORMAT,
            options={key: value for key, value in item.items() if key not in IMAGE_KEYS},
        )

    return Provider(
        name=section["name"],
        driver=section["driver"],
        diskimages=tuple(image(item) for item in section.get("diskimages", [])),
        image_upload_timeout_seconds=min(float(section.get("image-upload-timeout", 3600)), LONGEST_SECONDS),
        post_upload_hook=section.get("post-upload-hook") or None,
        upload_workers=section.get("upload-workers"),
        format=format or FORMAT,
        options=options,
        launch={key: value for key, value in section.items() if key in LAUNCH_KEYS},
    )


def _taken(name: str, providers: Iterable[Provider]) -> list[str]:
    """The formats in which providers want a diskimage."""
    return [image.format for provider in providers for image in provider.diskimages if image.name == name]


def _label(section: Mapping[str, Json]) -> Label:
    return Label(
        name=section["name"],
        min_ready=section.get("min-ready", 0),
        max_ready_age_seconds=float(section.get("max-ready-age", 0)),
        options={key: value for key, value in section.items() if key not in LABEL_KEYS},
    )


def _zookeeper(value: Mapping[str, Json]) -> ZooKeeperSettings | None:
    """Every server once, and the chroot that they share behind the last."""
    servers = value.get("zookeeper-servers") or []
    if not servers:
        return None
    hosts = ",".join(f"{_bracketed(server['host'])}:{server.get('port', PORT)}" for server in servers)
    chroot = next((each.strip("/") for each in (server.get("chroot", "") for server in servers) if each), "")
    tls = value.get("zookeeper-tls")
    return ZooKeeperSettings(
        hosts=f"{hosts}/{chroot}" if chroot else hosts,
        session_timeout_seconds=float(value.get("zookeeper-timeout", 10)),
        tls=TlsSettings(**tls) if tls else None,
        **value.get("zookeeper-auth", {}),
    )


def _bracketed(host: str) -> str:
    """An IPv6 address stands in brackets before its port.

    >>> _bracketed("::1"), _bracketed("zk01")
    ('[::1]', 'zk01')
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _deeply(below: Mapping[str, Json], above: Mapping[str, Json]) -> dict[str, Json]:
    """Mappings laid over each other at every level; all else is replaced.

    >>> _deeply({"a": {"b": 1, "c": [2]}}, {"a": {"c": [3]}})
    {'a': {'b': 1, 'c': [3]}}
    """
    both = dict(below)
    for key, value in above.items():
        under = both.get(key)
        both[key] = _deeply(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return both

"""Faults of a nodepool.yaml that a schema cannot express: duplicate or missing names, circles of parents.

Each check accepts a document with parts of any type: the schema's faults are reported together with these.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Final

import msgspec

from nodepool_ocb.documents.plainyaml import Fault, Key
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.images import diskimages
from nodepool_ocb.images.dialect import NodepoolDocument
from nodepool_ocb.model.records import Json

OPENSTACK: Final = "openstack"  # the driver of a provider that names none
#: The keys of a provider that are no options: they control its uploads.
PROVIDER_KEYS: Final = frozenset(
    {"name", "driver", "diskimages", "image-upload-timeout", "upload-workers", "format", "post-upload-hook"}
)
#: The keys of a provider for launchers alone; a driver of images never gets them.
LAUNCH_KEYS: Final = frozenset(
    {"pools", "max-concurrency", "priority", "boot-timeout", "launch-timeout", "launch-retries", "hostname-format"}
    | {"max-servers", "max-cores", "max-ram", "max-resources", "cloud-images"}
)
#: The keys of a provider that a secure file must not have: it is not checked against all of the schema.
NO_SECRETS: Final = (PROVIDER_KEYS | LAUNCH_KEYS | {"rate"}) - {"name"}
#: The fields that the name of an image in a cloud may have.
NAME_FIELDS: Final = ("image_name", "timestamp", "build_id", "upload_id")


def of(source: NodepoolDocument) -> list[Fault]:
    """Every such fault of a nodepool.yaml."""
    value = source.document.value
    images = _SectionNames.of(value, "diskimages", "diskimage")
    labels = _SectionNames.of(value, "labels", "label")
    found = [fault for section in ("diskimages", "providers", "labels") for fault in _twice(source, value, section)]
    found += [*_parents(source, value), *_programs(source, value), *_chroots(source)]
    for key, provider in _listed(value, "providers"):
        found += _twice(source, provider, "diskimages", key)
        for below, item in _listed(provider, "diskimages"):
            found += images.missing(source, (*key, *below, "name"), item["name"])
        if provider.get("driver", OPENSTACK) == OPENSTACK:
            found += _of_clouds(source, key, provider, images, labels)
    return found


def of_secrets(secure: NodepoolDocument, source: NodepoolDocument) -> list[Fault]:
    """The faults of the secure file, which is laid over a nodepool.yaml: each name must exist there."""
    found = list(_chroots(secure))
    for section, word in (("diskimages", "diskimage"), ("providers", "provider")):
        names = _SectionNames.of(source.document.value, section, word)
        found += _twice(secure, secure.document.value, section)
        for key, item in _listed(secure.document.value, section):
            text = names.why_not(item["name"], f"; add it to `{section}` of {source.written.name}")
            found += [secure.fault((*key, "name"), text)] if text else []
    for key, provider in _listed(secure.document.value, "providers"):
        for word in sorted(provider.keys() & NO_SECRETS):
            found.append(secure.fault((*key, word), f"`{word}` is no secret; move it to {source.written.name}"))
    return found


class _SectionNames(msgspec.Struct, frozen=True):
    """The names that a section defines; None if the file has no such section, and so leaves it to others."""

    section: str
    word: str
    all: frozenset[str] | None
    abstract: frozenset[str]

    @classmethod
    def of(cls, value: Json, section: str, word: str) -> _SectionNames:
        there = isinstance(value, dict) and value.get(section) is not None
        items = [item for _, item in _listed(value, section)]
        abstract = frozenset(item["name"] for item in items if item.get("abstract") is True)
        return cls(section, word, frozenset(item["name"] for item in items) if there else None, abstract)

    def why_not(self, name: str, advice: str) -> str | None:
        """Why this name is wrong here; None if it is right."""
        known = self.all or frozenset()
        if name in self.abstract:
            return f"{self.word} {name} is abstract; name one that has it as a parent"
        if name in known:
            return None
        near = did_you_mean(name, sorted(known - self.abstract))
        return f"{self.word} {name} does not exist{near or advice}"

    def missing(self, source: NodepoolDocument, key: Key, name: Json) -> list[Fault]:
        """The fault of a key that names something, if it has one."""
        if self.all is None or not isinstance(name, str):
            return []
        text = self.why_not(name, f"; add it to `{self.section}`")
        return [source.fault(key, text)] if text else []


def _listed(value: Json, section: str) -> Iterator[tuple[Key, Mapping[str, Json]]]:
    """The mappings with a name in a list; all other values are left out."""
    items = value.get(section) if isinstance(value, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield (section, index), item


def _twice(source: NodepoolDocument, value: Json, section: str, above: Key = ()) -> Iterator[Fault]:
    first: dict[str, Key] = {}
    for key, item in _listed(value, section):
        name = item["name"]
        if name in first:
            text = f"{name} is there twice, first in line {source.line((*above, *first[name]))}; remove one of them"
            yield source.fault((*above, *key), text)
        first.setdefault(name, key)


def _parents(source: NodepoolDocument, value: Json) -> Iterator[Fault]:
    images = {item["name"]: (key, item) for key, item in _listed(value, "diskimages")}
    for finding in diskimages.problems({name: item for name, (_, item) in images.items()}):
        yield source.fault((*images[finding.name][0], finding.key), finding.text)


def _programs(source: NodepoolDocument, value: Json) -> Iterator[Fault]:
    """The ``dib-cmd`` that are no program with its arguments, as a shell would split them."""
    for key, image in _listed(value, "diskimages"):
        command = image.get("dib-cmd")
        if isinstance(command, str) and command and not _words(command):
            yield source.fault((*key, "dib-cmd"), "must be a program, with arguments if need be; close every quote")


def _words(command: str) -> list[str]:
    """A command as a shell splits it; empty if that is not possible."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _of_clouds(
    source: NodepoolDocument, above: Key, provider: Mapping[str, Json], images: _SectionNames, labels: _SectionNames
) -> Iterator[Fault]:
    """Faults of an OpenStack provider: the labels of its pools, its cloud images, and its format of image names."""
    cloud_images = _SectionNames.of(provider, "cloud-images", "cloud-image")
    if (format := provider.get("image-name-format")) and isinstance(format, str) and not _is_format(format):
        text = f"may have {', '.join(f'{{{field}}}' for field in NAME_FIELDS)}, and nothing else in braces"
        yield source.fault((*above, "image-name-format"), text)
    for below, image in _listed(provider, "cloud-images"):
        if {"image-id", "image-name"} <= image.keys():
            text = "must have only one of `image-id` and `image-name`; take one of them away"
            yield source.fault((*above, *below, "image-name"), text)
    for pool_key, pool in _listed(provider, "pools"):
        for below, label in _listed(pool, "labels"):
            key = (*above, *pool_key, *below)
            yield from labels.missing(source, (*key, "name"), label["name"])
            if "diskimage" in label:
                yield from images.missing(source, (*key, "diskimage"), label["diskimage"])
            name = label.get("cloud-image")
            why = (
                cloud_images.why_not(name, "; add it to the provider's `cloud-images`")
                if isinstance(name, str)
                else None
            )
            if why:
                yield source.fault((*key, "cloud-image"), why)
            if ("diskimage" in label) == ("cloud-image" in label):
                yield source.fault(
                    key, "must have either `diskimage` or `cloud-image`; name the image that it starts from"
                )
            if not {"min-ram", "flavor-name"} & label.keys():
                yield source.fault(key, "must have `min-ram` or `flavor-name`; give the size of the machine")


def _is_format(text: str) -> bool:
    try:
        fields = [(field, rest) for _, field, *rest in Formatter().parse(text) if field is not None]
    except ValueError:
        return False
    return all(field in NAME_FIELDS and rest == ["", None] for field, rest in fields)


def _chroots(source: NodepoolDocument) -> Iterator[Fault]:
    value = source.document.value
    servers = value.get("zookeeper-servers") if isinstance(value, dict) else None
    first: str | None = None
    for index, server in enumerate(servers if isinstance(servers, list) else []):
        chroot = server.get("chroot") if isinstance(server, dict) else None
        if isinstance(chroot, str) and chroot.strip("/"):
            first = first if first is not None else chroot.strip("/")
            if chroot.strip("/") != first:
                text = f"is not the chroot of the servers before it, /{first}; servers of one ensemble share one"
                yield source.fault(("zookeeper-servers", index, "chroot"), text)

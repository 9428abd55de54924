"""Diskimages: the images to build, each with the keys of its parents. Pure.

A diskimage begins with the final keys of its parent. Its own ``elements`` come after the parent's. Its ``env-vars`` and
``options`` are laid over them key by key. Every other key that it has replaces the parent's, also by false or by an empty
value. (In Nodepool a child's ``pause: false`` and empty lists leave the parent's, which was never meant.) ``name``,
``parent`` and ``abstract`` are its own. The order in which diskimages are written does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from nodepool_ocb.documents import cycles
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.model.records import Json

#: The format of a diskimage if neither it nor a provider names one.
FORMAT: Final = "qcow2"
GENERATIONS: Final = 100  # of a diskimage, itself included
#: The keys of a diskimage that its children do not get.
OWN: Final = frozenset({"name", "parent", "abstract"})
#: The keys that have no effect if they are empty.
SAYING: Final = frozenset({"dib-cmd", "username", "python-path", "shell-type"})
LONGEST_SECONDS: Final = 315360000.0  # ten years: a longer time is cut to this

Keys = Mapping[str, Json]  # of a diskimage, as they are written


class Diskimage(msgspec.Struct, frozen=True, kw_only=True):
    """An image to build; the field names are those of Nodepool's keys, and the defaults are Nodepool's."""

    name: str
    elements: tuple[str, ...] = ()
    release: str | None = None
    env_vars: Mapping[str, str] = {}
    formats: tuple[str, ...] = (FORMAT,)  # its own, and those that its providers take; sorted, never empty
    rebuild_age_seconds: float = 86400.0
    build_timeout_seconds: float = 28800.0
    pause: bool = False
    dib_cmd: str = "disk-image-create"
    keep_formats: bool | tuple[str, ...] = True  # after uploads: True keeps all files, else those of these formats
    username: str | None = "zuul"
    python_path: str | None = "auto"
    shell_type: str | None = None
    metadata: Mapping[str, str] = {}
    # ours:
    backend: str = "dib"
    options: Mapping[str, Json] = {}  # for the backend
    builders: tuple[str, ...] = ()  # labels of builders that may build it; empty: any
    arch: str | None = None
    keep: int | None = None  # ready builds to keep; None: as the builder's settings say
    stub: bool = False  # only named here, for other builders: it has no format, and no provider wants it


class DiskimageFault(msgspec.Struct, frozen=True):
    """A fault of a diskimage, at one of its keys."""

    name: str
    key: str
    text: str


def problems(images: Mapping[str, Keys]) -> list[DiskimageFault]:
    """Parents that do not exist, and circles of parents: of each knot one shortest."""
    found = []
    for name, keys in images.items():
        parent = keys.get("parent")
        if isinstance(parent, str) and parent and parent not in images:
            near = did_you_mean(parent, images) or "; define it, or take the line away"
            found.append(DiskimageFault(name, "parent", f"diskimage {parent} does not exist{near}"))
    knots = cycles.components({name: _parents(keys) for name, keys in images.items()})
    for knot in knots:
        text = f"is its own parent in the end: {knot}; take one of these parents away"
        found.append(DiskimageFault(knot.circle[0], "parent", text))
    return found or list(_deep(images))


def _deep(images: Mapping[str, Keys]) -> Iterator[DiskimageFault]:
    """Diskimages with more generations than are needed; there must be no circles."""
    generations: dict[str, int] = {}
    for name in images:
        line, each, above = list[str](), name, 0
        while each not in generations and each:
            line.append(each)
            each = next(iter(_parents(images[each])), "")
        above = generations.get(each, 0)
        generations |= {one: above + at for at, one in enumerate(reversed(line), 1)}
    for name, count in generations.items():
        if count == GENERATIONS + 1:
            yield DiskimageFault(name, "parent", f"has {GENERATIONS} diskimages above it; at most {GENERATIONS - 1}")


def merged(images: Mapping[str, Keys]) -> dict[str, Keys]:
    """Each diskimage that is not abstract, with the keys from its parents; there must be no problems."""
    return {name: _whole(name, images) for name, keys in images.items() if not keys.get("abstract")}


def laid_over(below: Keys, above: Keys) -> Keys:
    """The keys of two generations as those of one.

    >>> laid_over({"elements": ["vm"], "pause": True}, {"elements": "ntp epel", "pause": False})
    {'elements': ['vm', 'ntp', 'epel'], 'pause': False}
    """
    said = {key: value for key, value in above.items() if key not in OWN and (value != "" or key not in SAYING)}
    both = {**below, **said}
    if "elements" in both:
        both["elements"] = [*words(below.get("elements", [])), *words(above.get("elements", []))]
    for key in ("env-vars", "options"):
        if key in both:
            both[key] = {**below.get(key, {}), **above.get(key, {})}
    return both


def made(name: str, keys: Keys, taken: Iterable[str] = ()) -> Diskimage:
    """The diskimage of merged keys; ``taken`` are the formats in which its providers want it."""
    own, taken = tuple(keys.get("formats", ())), tuple(taken)
    elements = words(keys.get("elements", []))
    backend = keys.get("backend", "dib")
    fields = ("pause", "backend", "options", "arch", "keep", "username", "dib-cmd", "python-path", "shell-type")
    release = keys.get("release", "")
    return Diskimage(
        name=name,
        elements=tuple(elements),
        release=str(release) if release != "" else None,
        env_vars=texts(keys.get("env-vars", {})),
        formats=tuple(sorted({*own, *taken} or {FORMAT})),
        rebuild_age_seconds=min(float(keys.get("rebuild-age", 86400)), LONGEST_SECONDS),
        build_timeout_seconds=min(float(keys.get("build-timeout", 28800)), LONGEST_SECONDS),
        keep_formats=tuple(keys.get("keep-formats", ())) if keys.get("delete-after-upload") else True,
        metadata=texts(keys.get("metadata", {})),
        builders=tuple(keys.get("builders", ())),
        stub=backend == "dib" and not own and not taken,
        **{field.replace("-", "_"): keys[field] for field in fields if field in keys},
    )


def first_format(keys: Keys) -> str:
    """The first format that merged keys name.

    >>> first_format({"formats": ["tar", "raw"]}), first_format({})
    ('tar', 'qcow2')
    """
    return next(iter(keys.get("formats", ())), FORMAT)


def texts(mapping: Mapping[str, Json]) -> dict[str, str]:
    """Values as text: numbers and booleans as Python writes them, as they reach OpenStack from Nodepool.

    >>> texts({"a": 1, "b": "01", "c": True})
    {'a': '1', 'b': '01', 'c': 'True'}
    """
    return {name: str(value) for name, value in mapping.items()}


def words(elements: str | Iterable[str]) -> list[str]:
    """Elements, written as a list or as one text with spaces; Nodepool puts spaces between them either way."""
    return (elements if isinstance(elements, str) else " ".join(elements)).split()


def _parents(keys: Keys) -> list[str]:
    parent = keys.get("parent")
    return [parent] if isinstance(parent, str) and parent else []


def _whole(name: str, images: Mapping[str, Keys]) -> Keys:
    line = [images[name]]
    while parents := _parents(line[-1]):
        line.append(images[parents[0]])
    whole: Keys = {}
    for keys in reversed(line):
        whole = laid_over(whole, keys)
    return whole

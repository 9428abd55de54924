"""Which files below a directory are the list of which release, as ``fuel rel --sync-deployment-tasks`` had it (seed 002).

A *tree* is a directory with a file ``release`` or ``release.yaml`` that names its release: the given one, or one just below
it. Of every other file the release is the first directory on the way to it: DIR/RELEASE/.../tasks.yaml. Trees of one release
are one list.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.documents import document
from nodepool_ocb.errors import Invalid, NotFound

LIST: Final = "tasks.yaml"
NAMED: Final = ("release.yaml", "release")
KEY: Final = "release"  # of release.yaml


class Tree(msgspec.Struct, frozen=True):
    """The files of a release, and their place."""

    release: str
    folders: tuple[Path, ...]
    how: str  # why they are this release's


def trees(root: Path) -> list[Tree]:
    """Every release below a directory, by name; those without a ``tasks.yaml`` are left out.

    Raises NotFound where there is no directory or no list, Invalid with every fault.
    """
    if not root.is_dir():
        raise NotFound(f"{root} is no directory; check the path")
    problems: list[str] = []
    found: dict[str, list[tuple[Path, str]]] = {}
    for folder, release, how in _named(root, problems):
        found.setdefault(release, []).append((folder, how))
    if problems:
        raise Invalid(problems)
    if not found:
        raise NotFound(f"there is no {LIST} below {root}; name the directory that holds the releases")
    return [
        Tree(release, tuple(folder for folder, _ in of), ", ".join(dict.fromkeys(how for _, how in of)))
        for release, of in sorted(found.items())
    ]


def _named(root: Path, problems: list[str]) -> Iterator[tuple[Path, str, str]]:
    """(folder, release, how) of each tree."""
    if file := _file(root):
        if any(root.rglob(LIST)) and (name := _name(file, problems)):
            yield root, name, f"named by {file}"
        return
    if (root / LIST).exists():
        problems.append(
            f"{root / LIST}: belongs to no release; put it below {root}/RELEASE, or name one in {root}/release"
        )
    for folder in sorted(each for each in root.iterdir() if each.is_dir() and not each.is_symlink()):
        if not any(folder.rglob(LIST)):
            continue
        file = _file(folder)
        if file is None:
            yield folder, folder.name, "by its path"
        elif name := _name(file, problems):
            yield folder, name, f"named by {file}"


def _file(folder: Path) -> Path | None:
    return next((folder / name for name in NAMED if (folder / name).is_file()), None)


def _name(file: Path, problems: list[str]) -> str | None:
    """The name in ``release`` (a line) or ``release.yaml`` (``release: NAME``)."""
    if file.suffix:
        value = document.load(file).value
        name = value.get(KEY) if isinstance(value, dict) else value
    else:
        name = document.read(file).strip()
    if isinstance(name, str) and len(name.split()) == 1:
        return name
    says = "one name" if not file.suffix else f"`{KEY}: NAME`, a number in quotes"  # 9.10 is 9.1
    problems.append(f"{file}:1: must name a release: {says}")
    return None

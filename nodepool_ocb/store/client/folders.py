"""Requests for all znodes that some folders list. The names of folders that are alike are packed once.

A large cluster has thousands of folders with the same names. So a request is a few joins of bytes, in place of a path for each
znode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from nodepool_ocb.store.client import frames

#: Folder → the names in it. The znodes are FOLDER/NAME, in this order. No folder of images: their layout may be another one.
Folders: TypeAlias = Mapping[str, Collection[str]]
#: The part of Folders that one request reads.
Batch: TypeAlias = Sequence[tuple[str, tuple[str, ...]]]

_ALIKE: Final = 256  # kinds of folders of which the packed names are kept


def batches(folders: Folders, most: int) -> Iterator[Batch]:
    """Parts of at most ``most`` znodes, none of them empty. A larger folder is divided.

    >>> [*batches({"/a": ["x", "y", "z"], "/b": [], "/c": ["x"]}, 2)]
    [[('/a', ('x', 'y'))], [('/a', ('z',)), ('/c', ('x',))]]
    """
    batch: list[tuple[str, tuple[str, ...]]] = []
    size = 0
    for folder, listed in folders.items():
        names = tuple(listed)
        for start in range(0, len(names), most):
            part = names[start : start + most]
            if size + len(part) > most:
                yield batch
                batch, size = [], 0
            batch.append((folder, part))
            size += len(part)
    if batch:
        yield batch


def paths(batch: Batch) -> list[str]:
    """The path of each znode.

    >>> paths([("/a", ("x", "y"))])
    ['/a/x', '/a/y']
    """
    return [f"{folder}/{name}" for folder, names in batch for name in names]


def read_data(batch: Batch, chroot: str) -> frames.Raw:
    """The request of ``frames.read_data`` for these paths."""
    return frames.many_data(
        prefix.join(_between(len(prefix), names))
        for folder, names in batch
        for prefix in [f"{chroot}{folder}/".encode()]
    )


@lru_cache(maxsize=_ALIKE)
def _between(length: int, names: tuple[str, ...]) -> Sequence[bytes]:
    """The bytes of a request before, between and after its prefixes, which are of this length."""
    ends = [frames.path_end(name) for name in names]
    heads = [frames.data_head(length + len(end)) for end in ends]
    return [heads[0], *(end + head for end, head in zip(ends, heads[1:], strict=False)), ends[-1]]

"""The versions of documents: which records an ETag digests, and the conditions of a request. Pure.

The ETag of an object is the digest of the mzxids of all znodes of its branch. That of a list covers all records of
the world. No text that depends on the clock is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from nodepool_ocb.errors import VersionLacking
from nodepool_ocb.model import paths
from nodepool_ocb.operations.performer import Condition
from nodepool_ocb.operations.reads import versions as stored
from nodepool_ocb.operations.reads.versions import ANY

#: Kind of object → the branch of the tree that it is, by the name in the path of a request.
BRANCHES: Final[Mapping[str, Callable[[str], str]]] = {
    "bootenv": paths.bootenv,
    "deployment": paths.deployment,
    "image": paths.image,
    "lease": paths.pool_node,
    "network": paths.network,
    "node": paths.node,
    "noderole": lambda name: paths.noderole(*paths.split_noderole(name)),
    "request": paths.request,
    "role": paths.role,
    "token": paths.token,
}


def branch(kind: str, name: str) -> str | None:
    """The branch of an object; None for a name that no object can have.

    >>> branch("noderole", "ntp@n1"), branch("node", ".."), branch("noderole", "ntp")
    ('/ocb/nodes/n1/noderoles/ntp', None, None)
    """
    if not name or not name.isprintable() or "/" in name or name in (".", ".."):
        return None
    try:
        return BRANCHES[kind](name)
    except ValueError:
        return None


def joined(own: str | None, world: str | None) -> str | None:
    """The version of a document that shows an object and others: of the object, then of all; None if it is not known."""
    return None if own is None or world is None else f"{own}.{world}"


def of_object(version: str) -> str:
    """The part of a version that a write of the object must meet.

    >>> of_object("a1.b2"), of_object("a1")
    ('a1', 'a1')
    """
    return version.partition(".")[0]


def conditions(
    place: str | None, match: tuple[str, ...], none_match: tuple[str, ...], *, creates: bool
) -> tuple[Condition, ...]:
    """The conditions of a write to one object. Raises VersionLacking for one without a version."""
    if place is None:
        return ()
    if creates:
        return (stored.absent([place]),) if ANY in none_match else ()
    if not match:
        raise VersionLacking(
            "a write to an existing object needs If-Match with the ETag of its document, or `*` for its present state"
        )
    return () if match == (ANY,) else (stored.unchanged([place], match),)

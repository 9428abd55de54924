"""Changes to the bytes of one ZooKeeper transaction, and its refusal to an exception with a path.

Limits are checked before anything is sent: beyond about 1 MiB the server drops the connection, and with it
every request that is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kazoo.exceptions import (
    BadArgumentsError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NotEmptyError,
)

from nodepool_ocb.errors import Denied, Invalid, OcbError, Stale, TooLarge, Unavailable
from nodepool_ocb.model.journal import Entry
from nodepool_ocb.model.limits import BLOB_BYTES, ENTRY_BYTES, RECORD_BYTES, TRANSACTION_BYTES, TRANSACTION_CHANGES
from nodepool_ocb.model.records import Append, Change, Check, Create, Delete, Raise, Record, Set
from nodepool_ocb.store.client import codec, frames, outcome
from nodepool_ocb.store.client.tree import NATIVE, ImageTree

ANY_VERSION: Final = -1  # for gates: a writer may raise one after any other writer

_STALE: Final = {
    frames.NO_NODE: "is not there (any more)",
    frames.CHANGED: "was changed meanwhile",
    NoChildrenForEphemeralsError.code: "is below an ephemeral znode",
    frames.EXISTS: "exists already",
    NotEmptyError.code: "has something below it",
}
_WRITING: Final = (Create, Set, Raise, Append)  # a union would be made anew with each question
NO_RIGHT: Final[int] = NoAuthError.code
_RIGHTS: Final[Mapping[type[Change], str]] = {
    Create: "create", Append: "create", Set: "write", Raise: "write", Delete: "delete", Check: "read"
}  # fmt: skip
_GIVEN_BY: Final = {"create": " (a right of its parent)", "delete": " (a right of its parent)"}
_LOOK: Final = "check zookeeper.username and the ACL there"


class Packed(NamedTuple):
    """A transaction ready to be sent; ``data`` is the data that each change writes, signed, and b"" where it writes nothing."""

    request: frames.Raw
    data: list[bytes]
    size: int  # bytes of all members


def pack(changes: Sequence[Change], chroot: str, acl: Callable[[str], bytes], tree: ImageTree = NATIVE) -> Packed:
    """``acl`` gives the ACL that a path's znode is made with. Raises Invalid for data that is too large, too long or not JSON.

    The data of the result are native; those of the request are the tree's.

    Entries of the journal come on top of the limits: they are never the reason why a transaction is too large. So does the
    signature.
    """
    if len(changes) > TRANSACTION_CHANGES:
        _refuse_many(changes)
    own, data, members, size, foreign = codec.signature(), list[bytes](), list[bytes](), 0, tree.foreign
    for change in changes:
        path = tree.stored(change.path) if foreign else change.path
        if isinstance(change, Check):
            wrote, member = b"", frames.check(chroot + path, change.version)
            size += len(member)
        else:
            bare = _data(change)
            wrote = codec.signed(bare, own) if outcome.signed(change) else bare
            member = _member(change, chroot + path, tree.written(change.path, wrote) if foreign else wrote, acl)
            if not _on_top(change):
                size += len(member) - len(wrote) + len(bare)
        data.append(wrote)
        members.append(member)
    if size > TRANSACTION_BYTES:
        raise TooLarge(
            f"{_these(changes)}: {size} bytes are more than one transaction may hold ({TRANSACTION_BYTES});"
            " change less at once"
        )
    return Packed(frames.multi(members), data, size)


def _refuse_many(changes: Sequence[Change]) -> None:
    """Raises TooLarge."""
    counted = sum(not _on_top(change) for change in changes)
    if counted > TRANSACTION_CHANGES:
        raise TooLarge(
            f"{counted} changes are more than one transaction may hold ({TRANSACTION_CHANGES}); change less at once"
        )


def _on_top(change: Change) -> bool:
    """Whether it is an entry of a journal."""
    return type(change) is Append and isinstance(change.data, Entry)


def _these(changes: Sequence[Change]) -> str:
    others = len(changes) - 1
    return changes[0].path + (f" and {others} other change{'s' if others > 1 else ''}" if others else "")


def owners(changes: Sequence[Change], session: int) -> list[int]:
    """The owner of the znode that each change creates: ``session`` for ephemeral znodes, else 0."""
    return [session if isinstance(change, Create) and change.ephemeral else 0 for change in changes]


def refusal(changes: Sequence[Change], refused: frames.RefusedMember) -> OcbError:
    """Why ZooKeeper did nothing of ``changes``."""
    change = changes[refused.member]
    return failure(refused.code, change.path, _RIGHTS[type(change)])


def failure(code: int, path: str, right: str) -> OcbError:
    """ZooKeeper's code as our exception; ``path`` is the znode, ``right`` the right that was used: "read", "create" ..."""
    if code in _STALE:
        text = f"{path} {_STALE[code]}: nothing was written; read it again and decide anew"
        return Stale(text, path, absent=code == frames.NO_NODE)
    if code == NO_RIGHT:
        return Denied(f"ZooKeeper does not let this user {right} {path}{_GIVEN_BY.get(right, '')}; {_LOOK}")
    if code == InvalidACLError.code:
        return Denied(
            f"ZooKeeper does not take the rights that {path} would get; check zookeeper.acl and zookeeper.username"
        )
    if code == BadArgumentsError.code:
        return Invalid(f"ZooKeeper takes no znode {path!r}; correct the name")
    return Unavailable(f"ZooKeeper refused {path} with error {code}; its log has the reason")


def _data(change: Change) -> bytes:
    if not isinstance(change, _WRITING):
        return b""
    data = codec.encode(change.data)
    if len(data) > ENTRY_BYTES:
        _refuse_large(change, change.data, len(data))
    return data


def _refuse_large(change: Change, written: object, size: int) -> None:
    """Raises TooLarge where the data have more bytes than they may."""
    limit = RECORD_BYTES if isinstance(written, Record) else BLOB_BYTES
    limit = ENTRY_BYTES if _on_top(change) else limit
    if size > limit:
        raise TooLarge(f"{change.path}: {size} bytes are more than it may hold ({limit}); make it smaller")


def _member(change: Change, path: str, data: bytes, acl: Callable[[str], bytes]) -> bytes:
    if isinstance(change, Set):
        return frames.write(path, data, change.version)
    if isinstance(change, Create):
        return frames.create(path, data, acl(change.path), change.ephemeral)
    if isinstance(change, Append):
        return frames.append(path, data, acl(f"{change.path}/"))
    if isinstance(change, Raise):
        return frames.write(path, data, ANY_VERSION)
    return frames.delete(path, change.version)

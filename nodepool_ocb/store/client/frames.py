"""The requests that this package packs itself, and their answers: multiRead, multi, addWatch, sync.

kazoo builds one object per request and one per part of an answer. Here a transaction, or a read of five hundred paths,
is one buffer that is packed and unpacked by hand. The layouts are ZooKeeper's own (jute: big-endian, length before text
and data). A ``Reply`` holds the buffer from the socket and the offset of the answer in it. Nothing is copied before it
is unpacked, and any thread may unpack it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

MULTI: Final = 14
MULTI_READ: Final = 22
ADD_WATCH: Final = 106
SYNC: Final = 9
GET_ACL: Final = 6
SET_ACL: Final = 7
LIST: Final = 8

CREATE: Final = 1
_DELETE, _SET, _CHECK = 2, 5, 13
_GET, _CHILDREN = 4, 8
_PERSISTENT_RECURSIVE = 1
_EPHEMERAL, _SEQUENTIAL = 1, 2  # flags of a create

OK: Final = 0
ROLLED_BACK: Final = -2  # of a member after the one that failed; OK stands for those before it
NO_NODE: Final[int] = NoNodeError.code
CHANGED: Final[int] = BadVersionError.code
EXISTS: Final[int] = NodeExistsError.code

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!iBi")  # of a member: opcode, whether it is the end, error
_MEMBER = struct.Struct("!iBii")  # the same, and the length (or the error) that follows
_STAT = struct.Struct("!qqqqi8xq4xi8x")  # czxid, mzxid, ctime, mtime, version, ephemeral owner, number of children
_END = _HEADER.pack(-1, True, -1)
_ESCAPE = b"\\u"  # in JSON, of any character: "ntp\\u0040n1"
_BACKSLASHES: Final = (
    1000  # with more in an answer, as in texts of many lines, one search for the whole escape costs less
)
_REFUSED = _END[:4] + b"\0\xff\xff\xff"  # of a member that failed, and is not the end: its error is negative
_ACL_VERSION = 40  # where it begins in a stat


class Znode(msgspec.Struct, frozen=True, gc=False):
    """A znode that was read: times are seconds since the epoch, ``ephemeral_owner`` is a session's id or 0."""

    path: str
    data: bytes
    version: int
    mzxid: int
    ephemeral_owner: int = 0
    children: int = 0
    ctime: float = 0.0
    mtime: float = 0.0
    czxid: int = 0  # of the transaction that created it; it rises with the time of creation


class ZnodeStat(msgspec.Struct, frozen=True, gc=False):
    """The stat of a znode after a write."""

    version: int
    mzxid: int
    ephemeral_owner: int = 0
    mtime: float = 0.0  # seconds since the epoch; 0 after a create, for ZooKeeper does not send it


class AclGrant(NamedTuple):
    """One of an ACL: ``permissions`` are the sum of 1 read, 2 write, 4 create, 8 delete, 16 change the ACL."""

    permissions: int
    scheme: str
    identity: str


class Raw(NamedTuple):
    """A request that is packed already; kazoo's loop sees the two names that it needs."""

    type: int
    body: bytes

    def serialize(self) -> bytes:
        return self.body


class Reply(NamedTuple):
    """An answer without error, not unpacked yet; ``zxid``: the newest transaction the server had seen."""

    buffer: bytes
    offset: int
    zxid: int


class RefusedMember(NamedTuple):
    """Which member of a multi failed, and ZooKeeper's code for why; nothing of the multi was done."""

    member: int
    code: int


class UnreadablePath(Exception):
    """ZooKeeper's code for why one path of many may not be read."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"{path}: error {code}")
        self.code = code
        self.path = path


def text(value: str) -> bytes:
    """Length and UTF-8."""
    encoded = value.encode()
    return _INT.pack(len(encoded)) + encoded


def add_watch(path: str) -> Raw:
    """Events for ``path`` and everything below it, until this connection ends."""
    return Raw(ADD_WATCH, text(path) + _INT.pack(_PERSISTENT_RECURSIVE))


def sync(path: str) -> Raw:
    """Answered when this server has seen all that was written before."""
    return Raw(SYNC, text(path))


def create_next(prefix: str, data: bytes, acl: bytes, ephemeral: bool) -> Raw:
    """A request that creates a znode with the parent's next number at the end of its name. It is sent alone: its answer
    is the path.
    """
    flags = _SEQUENTIAL | (_EPHEMERAL if ephemeral else 0)
    return Raw(CREATE, b"".join((text(prefix), _INT.pack(len(data)), data, acl, _INT.pack(flags))))


def unpack_path(reply: Reply) -> str:
    """The path that was created."""
    length = _INT.unpack_from(reply.buffer, reply.offset)[0]
    return reply.buffer[reply.offset + 4 : reply.offset + 4 + length].decode()


# -- multiRead --


def read_data(paths: Sequence[str], chroot: str) -> Raw:
    """One request that reads all of ``paths``."""
    return Raw(MULTI_READ, _members(_GET, paths, chroot))


def read_children(paths: Sequence[str], chroot: str) -> Raw:
    """One request that lists the children of all of ``paths``."""
    return Raw(MULTI_READ, _members(_CHILDREN, paths, chroot))


def _members(opcode: int, paths: Sequence[str], chroot: str) -> bytes:
    heads = _HEADS[opcode]
    parts: list[bytes] = []
    for path in paths:
        name = path_end(f"{chroot}{path}" if path != "/" or not chroot else chroot)
        parts += (heads[len(name)], name)
    parts.append(_END)
    return b"".join(parts)


def many_data(members: Iterable[bytes]) -> Raw:
    """As ``read_data``; each member is a ``data_head``, and the path that it is for with its ``path_end``."""
    return Raw(MULTI_READ, b"".join((*members, _END)))


def data_head(length: int) -> bytes:
    """The bytes before a path that is read; ``length`` is that of the path with the byte behind it."""
    return _HEADS[_GET][length]


def path_end(path: str) -> bytes:
    """A path, or the end of one, and the byte behind it: no watch."""
    return f"{path}\0".encode()


class _Heads(dict[int, bytes]):
    """The header of a member and the length of its path, by that length and 1: paths of one length have one head."""

    def __init__(self, opcode: int) -> None:
        self._header = _HEADER.pack(opcode, False, -1)

    def __missing__(self, length: int) -> bytes:
        head = self[length] = self._header + _INT.pack(length - 1)
        return head


_HEADS: Final = {opcode: _Heads(opcode) for opcode in (_GET, _CHILDREN)}


def unpack_data(reply: Reply, paths: Sequence[str]) -> list[Znode | None]:
    """For each path its znode, None if it is absent; raises UnreadablePath for the first that may not be read."""
    buffer, offset, _ = reply
    member, stat, make = _MEMBER.unpack_from, _STAT.unpack_from, Znode
    found: list[Znode | None] = []
    add = found.append
    for path in paths:
        opcode, _, error, size = member(buffer, offset)
        offset += 13
        if opcode == -1:
            if error != NO_NODE:
                raise UnreadablePath(error, path)
            add(None)
            continue
        end = offset + size if size > 0 else offset
        czxid, mzxid, ctime, mtime, version, owner, children = stat(buffer, end)
        add(make(path, buffer[offset:end], version, mzxid, owner, children, ctime / 1000, mtime / 1000, czxid))
        offset = end + 68
    return found


def unpack_bytes(reply: Reply, paths: Sequence[str]) -> list[bytes | None]:
    """As ``unpack_data``, the data alone."""
    buffer, offset, _ = reply
    member = _MEMBER.unpack_from
    found: list[bytes | None] = []
    add = found.append
    for path in paths:
        opcode, _, error, size = member(buffer, offset)
        offset += 13
        if opcode == -1:
            if error != NO_NODE:
                raise UnreadablePath(error, path)
            add(None)
            continue
        end = offset + size if size > 0 else offset
        add(buffer[offset:end])
        offset = end + _STAT.size
    return found


def unpack_mentioning(reply: Reply, paths: Callable[[], Sequence[str]], needles: Sequence[bytes]) -> list[Znode]:
    """The znodes with JSON that has one of these bytes, or has an escape, which may hide them. Raises as ``unpack_data``.

    No znode is made of an answer without them, and none of its ``paths``.
    """
    buffer, offset, _ = reply
    if _escapes(buffer, offset) or any(buffer.find(needle, offset) >= 0 for needle in needles):
        found = unpack_data(reply, paths())
        hints = [*needles, _ESCAPE]
        return [each for each in found if each is not None and any(hint in each.data for hint in hints)]
    if buffer.find(_REFUSED, offset) >= 0:
        unpack_bytes(reply, paths())  # raises for a path that may not be read
    return []


def _escapes(buffer: bytes, offset: int) -> bool:
    r"""Whether there may be an escape of JSON: a tenth of the cost of a search for both bytes. A stat has the first one often.

    >>> _escapes(rb"a\b", 0), _escapes(rb"ntp\u0040n1", 0), _escapes(rb"ntp\u0040n1", 4)
    (False, True, False)
    """
    at = offset - 1
    for _ in range(_BACKSLASHES):
        at = buffer.find(_ESCAPE[:1], at + 1)
        if at < 0 or buffer.startswith(_ESCAPE, at):
            return at >= 0
    return buffer.find(_ESCAPE, at) >= 0


def unpack_children(reply: Reply, paths: Sequence[str]) -> list[list[str] | None]:
    """As ``unpack_data``, with the children's names. Most folders of a large cluster have the names of the one before."""
    buffer, offset, _ = reply
    length = _INT.unpack_from
    found: list[list[str] | None] = []
    names: list[str] = []
    packed = b""  # these names
    for path in paths:
        opcode, _, error, size = _MEMBER.unpack_from(buffer, offset)
        offset += 13
        if opcode == -1:
            if error != NO_NODE:
                raise UnreadablePath(error, path)
            found.append(None)
            continue
        if size == len(names) and buffer.startswith(packed, offset):
            found.append(names.copy())
            offset += len(packed)
            continue
        names, begin = [], offset
        for _ in range(size):
            end = offset + 4 + length(buffer, offset)[0]
            names.append(buffer[offset + 4 : end].decode())
            offset = end
        found.append(names)
        packed = buffer[begin:offset]
    return found


def unpack_naming(reply: Reply, paths: Sequence[str], names: frozenset[str], needles: Sequence[bytes]) -> list[str]:
    """The paths with a child of one of these names; ``needles``: the names, each as ``text``. Raises as ``unpack_data``.

    An answer without a refusal and without these names is not unpacked.
    """
    buffer, offset, _ = reply
    if buffer.find(_REFUSED, offset) < 0 and not any(buffer.find(needle, offset) >= 0 for needle in needles):
        return []
    listed = zip(paths, unpack_children(reply, paths), strict=True)
    return [path for path, found in listed if found is not None and not names.isdisjoint(found)]


# -- multi: each writer gives one member of a transaction --

_CHECKS, _CREATES, _SETS, _DELETES = (_HEADER.pack(each, False, -1) for each in (_CHECK, CREATE, _SET, _DELETE))


def check(path: str, version: int) -> bytes:
    return _CHECKS + text(path) + _INT.pack(version)


def create(path: str, data: bytes, acl: bytes, ephemeral: bool) -> bytes:
    """``acl`` is packed by ``access``."""
    return b"".join((_CREATES, text(path), _INT.pack(len(data)), data, acl, _INT.pack(ephemeral)))


def append(parent: str, data: bytes, acl: bytes) -> bytes:
    """A create of a znode below ``parent`` with the parent's next number as its name."""
    return b"".join((_CREATES, text(f"{parent}/"), _INT.pack(len(data)), data, acl, _INT.pack(_SEQUENTIAL)))


def write(path: str, data: bytes, version: int) -> bytes:
    return b"".join((_SETS, text(path), _INT.pack(len(data)), data, _INT.pack(version)))


def delete(path: str, version: int) -> bytes:
    return _DELETES + text(path) + _INT.pack(version)


# -- ACLs: requests of their own, for multiRead and multi know them not --


def access(acl: Sequence[AclGrant]) -> bytes:
    return _INT.pack(len(acl)) + b"".join(
        _INT.pack(permissions) + text(scheme) + text(identity) for permissions, scheme, identity in acl
    )


def read_acl(path: str) -> Raw:
    return Raw(GET_ACL, text(path))


def write_acl(path: str, packed: bytes, version: int) -> Raw:
    """``version`` is that of the ACL, which rises with it alone."""
    return Raw(SET_ACL, text(path) + packed + _INT.pack(version))


def unpack_acl(reply: Reply) -> tuple[tuple[AclGrant, ...], int]:
    """An ACL and its version."""
    buffer, offset, _ = reply
    count, offset = _INT.unpack_from(buffer, offset)[0], offset + 4
    acl = []
    for _ in range(count):
        permissions = _INT.unpack_from(buffer, offset)[0]
        scheme, offset = _text(buffer, offset + 4)
        identity, offset = _text(buffer, offset)
        acl.append(AclGrant(permissions, scheme, identity))
    return tuple(acl), _INT.unpack_from(buffer, offset + _ACL_VERSION)[0]


def read_names(path: str) -> Raw:
    """Lists the children of one path."""
    return Raw(LIST, text(path) + b"\0")


def unpack_names(reply: Reply) -> list[str]:
    buffer, offset, _ = reply
    count, offset = _INT.unpack_from(buffer, offset)[0], offset + 4
    names = []
    for _ in range(count):
        name, offset = _text(buffer, offset)
        names.append(name)
    return names


def _text(buffer: bytes, offset: int) -> tuple[str, int]:
    """The text at the offset, and the offset after it."""
    begins = offset + 4
    ends = begins + _INT.unpack_from(buffer, offset)[0]
    return buffer[begins:ends].decode(), ends


def multi(members: Sequence[bytes]) -> Raw:
    """All of the members or none."""
    return Raw(MULTI, b"".join((*members, _END)))


def unpack_multi(reply: Reply, owners: Sequence[int]) -> list[ZnodeStat | None] | RefusedMember:
    """For each member the stat after it (None for check and delete), or the first that failed.

    ``owners`` has the owner of the znode that each member creates. In a multi, ZooKeeper 3.8 answers a create with the
    path alone, even for create2. The version of a created znode is 0, and its zxid is that of the answer.
    """
    buffer, offset, zxid = reply
    stats: list[ZnodeStat | None] = []
    for index, owner in enumerate(owners):
        opcode, _, _ = _HEADER.unpack_from(buffer, offset)
        offset += 9
        if opcode == -1:
            code = _INT.unpack_from(buffer, offset)[0]
            offset += 4
            if code not in (OK, ROLLED_BACK):
                return RefusedMember(index, code)
        elif opcode == CREATE:
            offset += 4 + _INT.unpack_from(buffer, offset)[0]
            stats.append(ZnodeStat(0, zxid, owner))
        elif opcode == _SET:
            _, mzxid, _, mtime, version, ephemeral_owner, _ = _STAT.unpack_from(buffer, offset)
            stats.append(ZnodeStat(version, mzxid, ephemeral_owner, mtime / 1000))
            offset += 68
        else:
            stats.append(None)
    return stats if len(stats) == len(owners) else RefusedMember(0, ROLLED_BACK)

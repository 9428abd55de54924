"""A piece of the access log of an admin node, over ssh: the requests of machines that boot, and no others."""

from __future__ import annotations

import re
import shlex
from typing import Final

import msgspec

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.link import Broken
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.model.records import Node

SECONDS: Final = 20.0
FIRST_BYTES: Final = 1 << 18  # of a log that was not read before: its end
MOST_BYTES: Final = 1 << 18  # of a piece
MOST_LINES: Final = 400  # of requests in a piece; an answer holds them
_AT: Final = re.compile(r"^AT (?P<inode>\d+) (?P<offset>\d+) (?P<size>\d+)$", re.MULTILINE)
_READ: Final = """\
inode=$(stat -c %i "$1") && size=$(stat -c %s "$1") || exit 1
at=$3
if [ "$inode" != "$2" ] || [ "$size" -lt "$at" ]; then at=$((size > $4 ? size - $4 : 0)); fi
n=$((size - at > $5 ? $5 : size - at))
echo "AT $inode $((at + n)) $size"
tail -c "+$((at + 1))" "$1" | head -c "$n" |
  awk '$7 ~ /^\\/(boot|agent)\\// || $7 ~ /\\/(vmlinuz|root\\.squashfs)$/ {
    print $1, substr($4, 2), substr($7, 1, 100), $9
  }' | tail -n "$6"
"""


class LogPlace(msgspec.Struct, frozen=True):
    """A log, and the byte that was reached; another inode is another log."""

    path: str
    inode: int = 0
    offset: int = 0


class LogPiece(msgspec.Struct, frozen=True):
    """Lines ``ADDRESS TIME PATH STATUS``, and the place to go on at; ``more``: there is more already."""

    lines: tuple[str, ...]
    next: LogPlace
    more: bool


def read(pool: Pool, fqdn: str, node: Node, place: LogPlace) -> LogPiece:
    """The next piece. Raises OwnFault where this host fails, and Unavailable where the admin node does not answer."""
    link = pool.take(fqdn, node)
    if isinstance(link, Unreachable):
        raise Unavailable(f"{fqdn} does not answer: {link.why}")
    limits = (FIRST_BYTES, MOST_BYTES, MOST_LINES)
    words = ["sh", "-c", _READ, "sh", place.path, *map(str, (place.inode, place.offset, *limits))]
    try:
        said = ask(link, shlex.join(words), SECONDS)
    except Broken as broken:
        pool.discard(link)
        raise Unavailable(f"{fqdn} does not answer: {broken.unreachable.why}") from broken
    finally:
        pool.give_back(link)
    found = _AT.search(said)
    if found is None:
        raise Unavailable(f"{place.path} on {fqdn} cannot be read: {' '.join(said.split())[:200]}")
    offset = int(found["offset"])
    after = LogPlace(place.path, int(found["inode"]), offset)
    return LogPiece(tuple(said[found.end() :].split("\n")), after, offset < int(found["size"]))

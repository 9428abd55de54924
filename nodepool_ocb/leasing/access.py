"""The public key of a lease on its nodes: put there and taken away by this host's own access (``ssh.key_files``).

The line has an end (``expiry-time``), so that a key that a killed client left opens nothing after the lease. It stands in the
``authorized_keys`` of the node's user, who needs a POSIX shell. A machine with several slots has one such file for all of them.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.jig import Unreachable
from nodepool_ocb.jigs.ssh import leasekeys
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys
from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Link, connect, shut
from nodepool_ocb.leasing.nodes import LeasedNode
from nodepool_ocb.model.records import Node

MARK: Final = leasekeys.MARK  # a mark begins so
AT_A_TIME: Final = 16
SECONDS: Final = 30.0  # for one node
SAID_BYTES: Final = 2000
_DONE: Final = "nodepool-ocb: done"

#: $1: the mark of the line; $2: the key, or nothing to take the line away; $3: the seconds that it is valid.
SCRIPT: Final = """
set -e
umask 077
mkdir -p ~/.ssh
file=~/.ssh/authorized_keys
lock=~/.ssh/.nodepool-ocb.lock
tries=0
until mkdir "$lock" 2>/dev/null; do
  tries=$((tries + 1))
  if [ "$tries" -gt 50 ]; then rmdir "$lock" || exit 1; tries=0; fi
  sleep 0.1
done
trap 'rmdir "$lock"' EXIT
if [ -n "$2" ]; then
  end=$(date -d "@$(($(date +%s) + $3))" +%Y%m%d%H%M%S)
  if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then echo >> "$file"; fi
  printf 'expiry-time="%s" %s %s\\n' "$end" "$2" "$1" >> "$file"
elif [ -e "$file" ]; then
  cp -p "$file" "$file.$1"
  grep -vF -- " $1" "$file" > "$file.$1" || [ $? = 1 ]
  mv "$file.$1" "$file"
fi
echo 'nodepool-ocb: done'
"""


class AccessFailed(msgspec.Struct, frozen=True):
    """A node where the key could not be put or taken away."""

    node: str
    reason: str


def put(
    nodes: Sequence[LeasedNode], settings: SshSettings, mark: str, key: str, seconds: int
) -> tuple[list[LeasedNode], list[AccessFailed]]:
    """Authorize the key on every node for so long.

    Gives the nodes, with the host key that was seen where the record has none, and the failures. ``mark`` is one word; the
    slot of a static machine is added to it.
    """
    answers = _everywhere(nodes, settings, (mark, key, str(seconds)))
    failed = [each for each in answers if isinstance(each, AccessFailed)]
    reached = [each for each in answers if not isinstance(each, AccessFailed)]
    return reached, failed


def withdraw(nodes: Sequence[LeasedNode], settings: SshSettings, mark: str) -> list[AccessFailed]:
    """Take the line away from every node; gives the failures."""
    answers = _everywhere(nodes, settings, (mark, "", "0"))
    return [each for each in answers if isinstance(each, AccessFailed)]


def _everywhere(
    nodes: Sequence[LeasedNode], settings: SshSettings, words: Sequence[str]
) -> list[LeasedNode | AccessFailed]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return list(pool.map(lambda node: _on(node, settings, words), nodes))


def _on(node: LeasedNode, settings: SshSettings, words: Sequence[str]) -> LeasedNode | AccessFailed:
    try:
        keys = load_keys(settings)
        record = Node(user=node.user, addresses=(node.place,), alive=True)
        link = connect(node.name, record, replace(settings, become=None), keys, node.host_keys)
        if isinstance(link, Unreachable):
            return AccessFailed(node.id, f"{node.name}: {link.why}")
        try:
            mark, *others = words
            return _answered(node, link, (f"{mark}{leasekeys.ending(node.slot)}", *others))
        finally:
            link.close()
    except (NoKey, OwnFault, Broken) as fault:
        return AccessFailed(node.id, f"{node.name}: {fault}")


def _answered(node: LeasedNode, link: Link, words: Sequence[str]) -> LeasedNode | AccessFailed:
    quoted = " ".join(map(shlex.quote, ("sh", "-c", SCRIPT, "sh", *words)))
    channel = link.channel(f"exec {quoted}", SECONDS)
    said, deadline = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline and (data := channel.recv(4096)):
            said = (said + data)[-SAID_BYTES:]
    except (TimeoutError, *ENDED) as error:
        return AccessFailed(node.id, f"{node.name}: no answer: {error}")
    finally:
        shut(channel)
    text = said.decode("utf-8", "replace").strip()
    if not text.endswith(_DONE):
        return AccessFailed(node.id, f"{node.name}: {text or 'it answered nothing'}")
    return node if node.host_keys else replace(node, host_keys=(link.host_key,))

"""The requests of a machine that boots, from the access log of the HTTP server of an admin node, and a sentence about them. Pure.

The name of the boot script of an installation is a nonce, so its request names the machine. The requests for the kernel and
for the root name no machine: they count for the address that asked for the script. Times
are those of the clock of the admin node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

NO_REQUEST: Final = "no request for its boot script has come to"
MOST_WORDS: Final = 3  # faults that an agent reported
#: The word of an agent that booted, and had no order: its machine started again while it was installed.
NO_ORDER: Final = "identity"
_LINE: Final = re.compile(
    r"(?P<address>[0-9A-Fa-f.:]+) \d+/\w+/\d+:(?P<time>\d\d:\d\d:\d\d) (?P<path>/\S*) (?P<status>\d{3})"
)
_AGENT: Final = re.compile(r"/agent/(?P<mac>[0-9A-Fa-f:%-]{17,27})/(?P<word>[a-z-]{1,30})")


class LoggedRequest(msgspec.Struct, frozen=True):
    """One line of the log, as the reader prints it: ``ADDRESS DAY/MONTH/YEAR:TIME PATH STATUS``."""

    address: str
    time: str  # hh:mm:ss
    path: str  # without a query
    status: int


class BootRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one machine since it was told to boot: a server and a time, or empty."""

    script: str = ""
    refused: str = ""  # the status of the script, where it was not given
    kernel: str = ""
    root: str = ""
    words: tuple[str, ...] = ()
    addresses: frozenset[str] = frozenset()


def parsed(line: str) -> LoggedRequest | None:
    """A line; None for any other text.

    >>> found = parsed("10.1.0.20 27/Nov/2026:15:00:02 /boot/ab.ipxe?x=1 200")
    >>> found.address, found.time, found.path, found.status
    ('10.1.0.20', '15:00:02', '/boot/ab.ipxe', 200)
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return None
    return LoggedRequest(found["address"], found["time"], found["path"].partition("?")[0], int(found["status"]))


def heard(
    known: BootRequests, server: str, requests: Iterable[LoggedRequest], nonce: str, macs: tuple[str, ...]
) -> BootRequests:
    """The requests of a machine after these of a server; ``macs``: of the node, in small letters."""
    for each in requests:
        at = f"{server} at {each.time}"
        agent = _AGENT.fullmatch(each.path)
        if each.path == f"/boot/{nonce}.ipxe":
            refused = "" if each.status < 400 else str(each.status)
            addresses = known.addresses | {each.address}
            known = BootRequests(script=at, refused=refused, addresses=addresses, words=known.words)  # another boot
        elif agent is not None and _mac(agent["mac"]) in macs:
            word = f"{agent['word']} ({each.time})"
            known = replace(known, words=(*known.words, word)[-MOST_WORDS:])
        elif each.address in known.addresses and each.status < 400 and each.path.endswith("/vmlinuz"):
            known = replace(known, kernel=at, root="")
        elif each.address in known.addresses and each.status < 400 and each.path.endswith("/root.squashfs"):
            known = replace(known, root=at)
    return known


def sentence(known: BootRequests, servers: Iterable[str]) -> str:
    """The newest request, and the one that is lacking. ``servers``: those whose logs were read.

    >>> sentence(BootRequests(script="a1 at 15:00:02", kernel="a1 at 15:00:03"), ["a1"])
    'a1 at 15:00:03 gave the kernel, and no root was requested: its kernel or its network card fails'
    """
    if known.words:
        return f"its agent reported {', '.join(known.words)}"
    if known.root:
        return f"{known.root} gave the root, and its agent has not spoken yet"
    if known.kernel:
        return f"{known.kernel} gave the kernel, and no root was requested: its kernel or its network card fails"
    if known.refused:
        return f"{known.script} refused its boot script with {known.refused}"
    if known.script:
        return f"{known.script} gave the boot script, and no kernel was requested: iPXE or the image fails"
    return f"{NO_REQUEST} {', '.join(servers)}: look at its boot order, its cable, and DHCP"


def started_again(known: BootRequests) -> str | None:
    """A sentence about a machine that lost its installer, such as by a loss of power; None if it did not say so.

    ``known``: the requests since the installer had its order. Each machine on the network can send such a request, so it is
    shown, and ends no installation.

    >>> started_again(BootRequests(words=("identity (15:00:09)",)))
    'it started again without an order: its agent reported identity (15:00:09); noderole cancel, then noderole retry'
    """
    if not any(word.startswith(f"{NO_ORDER} ") for word in known.words):
        return None
    return f"it started again without an order: its agent reported {', '.join(known.words)}; noderole cancel, then noderole retry"


def _mac(text: str) -> str:
    """A MAC in small letters.

    >>> _mac("52-54-00-00-00-01"), _mac("52%3A54%3A00%3A00%3A00%3A0A")
    ('52:54:00:00:00:01', '52:54:00:00:00:0a')
    """
    return text.lower().replace("%3a", ":").replace("-", ":")

"""The ranges of numbers and names in records: one vocabulary, checked where a record is decoded and before it is written.

The numbers of ports, and the hosts that are this one, stand here, too. So for any text that a person wrote, no decision meets a
number with which it cannot count, and no order a name that is two words. The schemas of documents have the same bounds. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Final

from msgspec import Meta

NAME: Final = r"[a-z0-9][a-z0-9_.-]{0,62}"  # of a role, a deployment, a jig
LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"  # of the name of a node
TIMEOUT_SECONDS: Final = 604_800.0  # the longest of a run: a week
PHASE_SECONDS: Final = 2_592_000.0  # the longest phase of a rollout: thirty days
RETRIES: Final = 1000  # the most of a role
BACKOFF_SECONDS: Final = 900.0  # the longest between two attempts
PORT: Final = 65535  # the last one

LATEST: Final = 1e11  # seconds since the epoch
Moment = Annotated[float, Meta(ge=0, le=LATEST)]  # seconds since the epoch
Count = Annotated[int, Meta(ge=0, le=10**15)]  # of numbers that only rise: epochs, generations, and znodes' own numbers
Times = Annotated[int, Meta(ge=0, le=10**9)]  # how often something was tried, how many there are
Number = Annotated[int, Meta(ge=-1, le=10**10 - 1)]  # of a rollout, in ten digits; -1 is before the first
Timeout = Annotated[float, Meta(gt=0, le=TIMEOUT_SECONDS)]  # seconds
Backoff = Annotated[float, Meta(ge=0, le=BACKOFF_SECONDS)]  # seconds
Retries = Annotated[int, Meta(ge=0, le=RETRIES)]
Percent = Annotated[int, Meta(ge=0, le=100)]
PrivateKey = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{43}\Z")]  # 32 bytes in base64
ExitCode = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Some = Annotated[int, Meta(ge=1, le=10**9)]  # how many, at least one
PhaseTime = Annotated[float, Meta(gt=0, le=PHASE_SECONDS)]  # seconds that a phase of a rollout may take
Amount = Annotated[float, Meta(ge=0, le=1e15)]  # of a resource of a provider
Rank = Annotated[int, Meta(ge=-(10**9), le=10**9)]  # in an order: lower goes first
Span = Annotated[float, Meta(ge=-1e11, le=1e11)]  # seconds, as other software writes them
Name = Annotated[str, Meta(pattern=rf"^{NAME}\Z")]  # small letters, digits, "-", "_" and ".", at most 63
RunName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")]  # one word, that may be in a path
Login = Annotated[str, Meta(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]{1,128}\Z")]  # one word
Noderole = Annotated[str, Meta(pattern=rf"^{NAME}@{LABEL}(\.{LABEL})*\Z", max_length=320)]  # role@fqdn
Id = Annotated[str, Meta(pattern=r"^[0-9]{10}\Z")]  # of a rollout
Mac = Annotated[str, Meta(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")]  # "52:54:00:12:34:56"
Vlan = Annotated[int, Meta(ge=1, le=4094)]
Mtu = Annotated[int, Meta(ge=576, le=9216)]  # bytes
SliceCount = Annotated[int, Meta(ge=1, le=64)]
SliceIndex = Annotated[int, Meta(ge=0, le=63)]

NODEROLE_HOOKS: Final = ("on_proposed", "on_todo", "on_blocked", "on_transition", "on_active", "on_error")
NODE_HOOKS: Final = ("on_node_create", "on_node_change", "on_node_delete")
DEPLOYMENT_HOOKS: Final = ("on_deployment_create", "on_deployment_delete")

NoderoleHook = Annotated[str, Meta(pattern=rf"^({'|'.join(NODEROLE_HOOKS)})\Z")]  # a hook of a noderole
NodeHook = Annotated[str, Meta(pattern=rf"^({'|'.join(NODE_HOOKS)})\Z")]  # a hook of a node
DeploymentHook = Annotated[str, Meta(pattern=rf"^({'|'.join(DEPLOYMENT_HOOKS)})\Z")]  # a hook of a deployment

_NAME: Final = re.compile(NAME)
_LOGIN: Final = re.compile(r"[^-\s\x00-\x1f\x7f-\x9f][^\s\x00-\x1f\x7f-\x9f]{0,127}")
_LABEL: Final = re.compile(LABEL)
_PORT: Final = re.compile("0*[0-9]{1,5}")


def port(text: str, least: int = 1) -> int | None:
    """The number of a port, as people write it; None for other texts than a number from ``least`` to 65535.

    >>> port("2181"), port("0"), port("0", least=0), port("65536"), port("+22"), port("²")
    (2181, None, 0, None, None, None)
    """
    number = int(text) if _PORT.fullmatch(text) else -1
    return number if least <= number <= PORT else None


def is_loopback(host: str) -> bool:
    """Whether it names this host alone, so that no network sees the bytes; an IPv6 address stands without brackets.

    >>> [is_loopback(each) for each in ("localhost", "127.0.0.2", "::1", "127.example.com", "10.0.0.1", "")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_login(text: str) -> bool:
    """Whether it may be given as a login name: one word, which no program takes for an option.

    >>> is_login("root"), is_login("-oProxyCommand=x"), is_login("a b"), is_login("")
    (True, False, False, False)
    """
    return _LOGIN.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def is_name(text: str) -> bool:
    """Whether it may be the name of a role or a deployment.

    >>> is_name("ntp-client"), is_name("ntp@n1"), is_name("ntp\\n")
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def is_node(text: str) -> bool:
    """Whether it may be the name of a node: labels of small letters, digits and "-".

    >>> is_node("n1.example.com"), is_node("N1.example.com"), is_node("n1. ")
    (True, False, False)
    """
    return len(text) <= 253 and all(map(_LABEL.fullmatch, text.split(".")))

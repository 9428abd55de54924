"""The rate of requests of one kind: so many at once, then so many a second, of each source. On one thread.

The sources that were seen last are kept. One that was forgotten begins anew, so a stranger with many addresses gains their
bursts alone; the rate of its token bounds these together.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from nodepool_ocb.errors import TooMany

MOST_SOURCES: Final = 4096

REGISTRATIONS_OF_ADDRESS: Final = (60, 2.0)  # at once, and a second; many machines may share the address of a proxy
REGISTRATIONS_OF_TOKEN: Final = (600, 5.0)
POLLS_OF_MACHINE: Final = (12, 0.5)  # it asks each 10 s, and each second when it was adopted
POLLS_OF_ADDRESS: Final = (1200, 100.0)
LONGEST_MAC: Final = 32  # of the text by which a machine is counted


class RequestRate:
    """A bucket for each source: ``most`` requests at once, and ``each_second`` after that."""

    def __init__(
        self, most: int, each_second: float, requests: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._each_second, self._requests, self._clock = most, each_second, requests, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # source → requests that are left, and when

    def take(self, source: str) -> None:
        """Count a request. Raises TooMany for one above the rate; that one is not counted.

        >>> now = [0.0]
        >>> rate = RequestRate(2, 0.5, "registrations from", lambda: now[0])
        >>> rate.take("a"), rate.take("a"), rate.take("b")
        (None, None, None)
        >>> rate.take("a")
        Traceback (most recent call last):
        nodepool_ocb.errors.TooMany: too many registrations from a: 2 at once, then 0.5 a second; wait, then try again
        >>> now[0] = 2.0
        >>> rate.take("a")
        """
        now = self._clock()
        left, at = self._left.pop(source, (float(self._most), now))
        left = min(float(self._most), left + (now - at) * self._each_second)
        refused = left < 1
        self._left[source] = (left if refused else left - 1, now)
        if len(self._left) > MOST_SOURCES:
            self._left.popitem(last=False)
        if refused:
            raise TooMany(
                f"too many {self._requests} {source}: {self._most} at once, then {self._each_second:g} a second;"
                " wait, then try again"
            )


class Registering:
    """The rates of registrations at one server, of each address and each join token; and of polls, of each machine and address.

    A poll of an adopted machine writes a token, so a machine that loops would write without an end. A machine is counted with
    its address, for the secret is not judged yet: a stranger with its MAC uses up a rate of its own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._addresses = RequestRate(*REGISTRATIONS_OF_ADDRESS, "registrations from", clock)
        self._tokens = RequestRate(*REGISTRATIONS_OF_TOKEN, "registrations with token", clock)
        self._machines = RequestRate(*POLLS_OF_MACHINE, "polls of machine", clock)
        self._polls = RequestRate(*POLLS_OF_ADDRESS, "polls from", clock)

    def take(self, token: str, address: str) -> None:
        """Count a registration. Raises TooMany."""
        self._addresses.take(address)
        self._tokens.take(token)

    def poll(self, mac: str, address: str) -> None:
        """Count a poll. Raises TooMany."""
        self._polls.take(address)
        self._machines.take(f"{mac.lower()[:LONGEST_MAC]} at {address}")

"""The drivers of one group of entry points: those of images, and those of machines.

A driver is loaded when it is asked for. One that breaks its contract is left out with a sentence; the others stay in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from nodepool_ocb import extensions
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid

D = TypeVar("D")


class DriverGroup(Generic[D]):
    """``kind`` is the word for one of them in sentences, ``contract`` the protocol of the class that an entry point names."""

    def __init__(self, kind: str, group: str, contract: type) -> None:
        self._kind, self._group, self._contract = kind, group, contract

    def points(self) -> Mapping[str, EntryPoint]:
        """The entry points by the names of their drivers; none is loaded."""
        return extensions.points(self._group)

    def installed(self) -> extensions.Found[D]:
        """Every driver by name, and those that are left out."""
        return extensions.load(self._kind, self._group, _as_it_is, self._contract)

    def driver(self, name: str) -> D:
        """An installed driver. Raises Invalid if it is left out, and KeyError if no package offers it."""
        found: D | extensions.LeftOut = extensions.one(self._kind, self.points()[name], _as_it_is, self._contract)
        if isinstance(found, extensions.LeftOut):
            raise Invalid(f"{found.sentence}; correct its package, and install it anew")
        return found

    def faults(self, name: str, ask: Callable[[D], Iterable[str]], absent: str) -> list[str]:
        """The sentences that the driver answers to ``ask``, or one about itself; ``absent`` begins that of an unknown name."""
        points = self.points()
        if name not in points:
            return [f"{absent}; there are {', '.join(sorted(points))}{did_you_mean(name, points)}"]
        try:
            return list(ask(self.driver(name)))
        except Invalid as left_out:
            return [str(left_out)]
        except Exception as error:  # of a package of others: its provider alone is left out
            return [f"driver `{name}` raised {extensions.in_a_line(error)}; correct its package"]


def _as_it_is(driver: Any) -> Any:
    return driver

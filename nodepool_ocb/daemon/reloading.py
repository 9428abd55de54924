"""A configuration that was read again: the settings that apply at once, and those that apply from the next start.

A daemon says which keys it cannot take over while it runs. Those keep the values that it has; every other key is as it was
read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from nodepool_ocb.config import Settings
from nodepool_ocb.telemetry.logs import setup_logging


class Reload(msgspec.Struct, frozen=True):
    """The actions of a daemon after a configuration was read again and found good."""

    apply: Callable[[], None]  # takes it over
    listen: str | None  # HOST:PORT of the pages
    end_within_seconds: float  # of a signal
    waiting: tuple[str, ...] = ()  # settings that differ and count from the next start on


class Reloading:
    """The settings in use, and their reload. Call it on the turn thread.

    ``read`` returns the present configuration. ``fixed`` are the keys that apply from the next start. ``prepare`` checks
    settings and returns the actions for them; it changes nothing.
    """

    def __init__(
        self,
        settings: Settings,
        read: Callable[[], Settings],
        fixed: Collection[str],
        prepare: Callable[[Settings], Reload],
    ) -> None:
        self._settings, self._read, self._fixed, self._prepare = settings, read, fixed, prepare

    def plan(self) -> Reload:
        """The actions. Raises Invalid or NoCluster if a part of the new configuration cannot be used."""
        fresh, waiting = kept(self._settings, self._read(), self._fixed)
        plan = self._prepare(fresh)
        return replace(plan, apply=partial(self._apply, fresh, plan), waiting=(*waiting, *plan.waiting))

    def _apply(self, fresh: Settings, plan: Reload) -> None:
        setup_logging(fresh.log)
        plan.apply()
        self._settings = fresh


def kept(running: Settings, read: Settings, fixed: Collection[str]) -> tuple[Settings, tuple[str, ...]]:
    """The settings as read, but with the ``fixed`` keys as they are; and those of them that differ, in order.

    A key is dotted, and stands for all below it.

    >>> kept(Settings(), Settings(admin_domain="example.com"), ["admin_domain"])[1]
    ('admin_domain',)
    """
    old, new = msgspec.to_builtins(running), msgspec.to_builtins(read)
    waiting: list[str] = []
    for key in fixed:
        *above, last = key.split(".")
        before, after = _below(old, above), _below(new, above)
        waiting += differing(before[last], after[last], key)
        after[last] = before[last]
    return msgspec.convert(new, Settings), tuple(waiting)


def differing(before: Any, after: Any, name: str) -> list[str]:
    """The dotted keys that differ between two values of plain data.

    >>> differing({"hosts": "a", "tls": None}, {"hosts": "b", "tls": None}, "zookeeper")
    ['zookeeper.hosts']
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        keys = dict.fromkeys([*before, *after])
        return [each for key in keys for each in differing(before.get(key), after.get(key), f"{name}.{key}")]
    return [] if before == after else [name]


def _below(document: Any, keys: Collection[str]) -> Any:
    for key in keys:
        document = document[key]
    return document

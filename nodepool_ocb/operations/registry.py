"""All operations, by noun and verb."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from nodepool_ocb import operations
from nodepool_ocb.operations.operation import Operation


def every() -> list[type[Operation[Any]]]:
    """Each operation; imports all modules of this room, so no command calls it."""
    for module in pkgutil.walk_packages(operations.__path__, f"{operations.__name__}."):
        import_module(module.name)
    named = (each for each in _below(Operation) if each.__module__.startswith(operations.__name__))
    return sorted((each for each in named if "verb" in vars(each)), key=lambda each: (each.title(), each.__name__))


def _below(above: type[Operation[Any]]) -> Iterator[type[Operation[Any]]]:
    for each in above.__subclasses__():
        yield each
        yield from _below(each)

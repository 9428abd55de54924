"""The base of Python code that a role may bring: hooks (seeds 000 and 001), and the work of jig ``role-provided``.

A package offers a subclass through the entry point group ``nodepool_ocb.roles``, under the name of the role. A subclass for all
roles of a barclamp has the barclamp's name. Two rules for hooks: they are fast (more than 50 ms is logged), and they are
idempotent, since each runs at least once. A hook changes the world only through the ``Hooked`` that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import invalidate_caches
from typing import Any, Final

from nodepool_ocb import extensions
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.ranges import DEPLOYMENT_HOOKS, NODE_HOOKS, NODEROLE_HOOKS
from nodepool_ocb.model.records import Json, Node, NodeRole

HOOKS: Final = NODEROLE_HOOKS + NODE_HOOKS + DEPLOYMENT_HOOKS

KIND: Final = "role"  # of extension
GROUP: Final = "nodepool_ocb.roles"

#: Seed 001 says on_node_update where seed 000 says on_node_change: one hook, two names.
ALIASES: Final[Mapping[str, str]] = {"on_node_update": "on_node_change"}


@dataclass
class Hooked:
    """The subject of a hook and the changes that it requests: written in one transaction with the note that the hook has run.

    ``noderoles`` are the noderoles of this hook's own role that a node or deployment hook may change, by name.
    """

    subject: str  # a noderole "role@fqdn", a node, or a deployment
    node: Node | None = None
    changed: frozenset[str] = (
        frozenset()
    )  # in on_node_change: the fields of the node that changed, but by it, since it ran last
    record: NodeRole | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict)  # the system attributes as they are
    user: Mapping[str, Json] = field(default_factory=dict)  # in deployment hooks: the user attributes of the role there
    noderoles: Mapping[str, NodeRole] = field(default_factory=dict)
    set_system: dict[str, dict[str, Json]] = field(default_factory=dict)  # noderole → attributes merged into its system
    set_node: dict[str, Any] = field(
        default_factory=dict
    )  # fields of Node: bootenv, alive with reason and hold_seconds, ...
    refresh: list[str] = field(default_factory=list)  # noderoles to run again in place
    role: str = ""  # the role that has this hook


class RoleCode:
    """A role without code of its own; override the methods that you need."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_proposed(self, hooked: Hooked) -> None: ...
    def on_todo(self, hooked: Hooked) -> None: ...
    def on_blocked(self, hooked: Hooked) -> None: ...
    def on_transition(self, hooked: Hooked) -> None: ...
    def on_active(self, hooked: Hooked) -> None: ...
    def on_error(self, hooked: Hooked) -> None: ...
    def on_node_create(self, hooked: Hooked) -> None: ...
    def on_node_change(self, hooked: Hooked) -> None: ...
    def on_node_update(self, hooked: Hooked) -> None: ...
    def on_node_delete(self, hooked: Hooked) -> None: ...
    def on_deployment_create(self, hooked: Hooked) -> None: ...
    def on_deployment_delete(self, hooked: Hooked) -> None: ...

    def run(self, order: Any) -> Mapping[str, Json]:
        """The work of jig role-provided: gets a jigs.Order, gives the attributes back; raises to fail."""
        return order.attributes  # type: ignore[no-any-return]


#: The name for packages.
Role = RoleCode


def overridden(kind: type[RoleCode]) -> tuple[str, ...]:
    """The hooks that a class has of its own, by the names of seed 000.

    >>> overridden(RoleCode)
    ()
    """
    own = {ALIASES.get(name, name) for name in dir(kind) if getattr(kind, name) is not getattr(RoleCode, name, None)}
    return tuple(hook for hook in HOOKS if hook in own)


def methods(kind: type[RoleCode], hook: str) -> tuple[str, ...]:
    """The methods of a class that a hook calls: those of its own, under either name.

    >>> methods(type("Dhcp", (RoleCode,), {"on_node_update": print}), "on_node_change")
    ('on_node_update',)
    """
    names = (hook, *(alias for alias, meant in ALIASES.items() if meant == hook))
    return tuple(name for name in names if getattr(kind, name) is not getattr(RoleCode, name))


@lru_cache(maxsize=1)
def _found() -> extensions.Found[type[RoleCode]]:
    """Every class that entry points name, checked."""
    return extensions.load(KIND, GROUP, _checked, object)


def _checked(kind: Any) -> type[RoleCode]:
    """Raises TypeError for a class that is no RoleCode, or has a hook that cannot be called as a hook. Makes no instance."""
    if not (isinstance(kind, type) and issubclass(kind, RoleCode)):
        raise TypeError("it is no subclass of nodepool_ocb.catalogue.code.Role")
    if fault := next(extensions.faults(object.__new__(kind), RoleCode), None):
        raise TypeError(fault)
    return kind


def installed() -> tuple[str, ...]:
    """The roles and barclamps with usable code on this host, as far as was looked."""
    return tuple(sorted(_found().usable))


def left_out() -> tuple[extensions.LeftOut, ...]:
    """The classes that are installed and not used, as far as was looked."""
    return _found().left_out


def look_again() -> None:
    """Search again for installed packages: new ones are found, loaded ones stay as they are."""
    invalidate_caches()
    _found.cache_clear()


def find(name: str, barclamp: str) -> RoleCode | None:
    """The installed code for a role: its own, else that of its barclamp; None if there is none.

    Raises Invalid if that code is left out, or cannot be made for the role.
    """
    usable, left_out = _found()
    refused = {each.name: each for each in left_out}
    for offered in (name, barclamp):
        if offered in usable:
            return _made(usable[offered], name)  # type: ignore[arg-type]  # mypy: a class has no hash
        if offered in refused:
            raise Invalid(f"{refused[offered].sentence}; correct its package, and install it anew")
    return None


@lru_cache(maxsize=1024)
def _made(kind: type[RoleCode], name: str) -> RoleCode:
    try:
        return kind(name)
    except Exception as error:
        raise Invalid(
            f"{kind.__module__}.{kind.__qualname__} cannot be made: {extensions.in_a_line(error)}; correct its code"
        ) from error

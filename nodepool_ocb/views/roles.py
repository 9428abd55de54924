"""Roles: one a row, one as it was imported, and the result of a check of barclamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodepool_ocb.engine.binding.refusals import TASK
from nodepool_ocb.engine.world import World
from nodepool_ocb.model.records import Role
from nodepool_ocb.views.view import View

if TYPE_CHECKING:
    from nodepool_ocb.catalogue.barclamp import Imported  # jsonschema takes long to import


class RoleRow(View, frozen=True, kw_only=True):
    """A role at a glance."""

    name: str
    barclamp: str
    jig: str
    flags: tuple[str, ...]
    requires: tuple[str, ...]
    description: str | None


class RoleDocument(View, frozen=True):
    """One role, as it was imported."""

    name: str
    record: Role


class CheckedRole(View, frozen=True, kw_only=True):
    """A role of a document that was checked."""

    name: str
    barclamp: str
    jig: str
    flags: tuple[str, ...]


class CheckedRoles(View, frozen=True, kw_only=True):
    """The result of a check of documents."""

    roles: tuple[CheckedRole, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]


def rows(world: World, flags: Sequence[str] = (), barclamp: str | None = None, *, tasks: bool = False) -> list[RoleRow]:
    """The roles by name: those with all of these flags, of the barclamp; of a run's tasks with ``tasks`` alone."""
    return [
        RoleRow(
            name=name,
            barclamp=role.record.barclamp,
            jig=role.record.jig,
            flags=role.record.flags,
            requires=role.record.requires,
            description=role.record.description,
        )
        for name, role in sorted(world.roles.items())
        if set(flags) <= set(role.record.flags) and barclamp in (None, role.record.barclamp)
        if tasks or TASK in flags or TASK not in role.record.flags
    ]


def checked(found: Imported) -> CheckedRoles:
    """The roles in the order of the documents."""
    roles = (
        CheckedRole(name=name, barclamp=role.barclamp, jig=role.jig, flags=role.flags)
        for name, role in found.roles.items()
    )
    return CheckedRoles(roles=tuple(roles), warnings=tuple(found.warnings), problems=tuple(found.problems))

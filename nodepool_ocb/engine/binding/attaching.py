"""Requirements that a document states at the other end: ``attaches`` of a role, and ``implementor`` of a jig. Pure.

OpenCrowbar reads ``attaches: [b]`` of role a as: b requires a. It reads ``jigs: [{name: chef, implementor: chef-client}]``
as: every role of jig chef requires chef-client. Both ends may be imported in any order, and again. So a role keeps its own
statement in ``attaches`` or ``implementors``. The other end has the requirement among ``requires`` and ``attached``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nodepool_ocb.model.records import Role


def as_written(role: Role) -> Role:
    """The role with the requirements of its own document alone."""
    own = tuple(need for need in role.requires if need not in role.attached)
    return replace(role, requires=own, attached=()) if role.attached else role


def complete(catalogue: Mapping[str, Role]) -> dict[str, Role]:
    """The roles, as written, with the requirements that other roles state for them."""
    stated: dict[str, list[str]] = {name: [] for name in catalogue}
    by_jig: dict[str, list[str]] = {}
    for name, role in sorted(catalogue.items()):
        by_jig.setdefault(role.jig, []).append(name)
        for below in role.attaches:
            stated.setdefault(below, []).append(name)
    for _, role in sorted(catalogue.items()):
        for jig, implementor in sorted(role.implementors.items()):
            for name in by_jig.get(jig, ()):
                stated[name].append(implementor)
    return {name: _with(name, role, stated[name]) for name, role in catalogue.items()}


def _with(name: str, role: Role, stated: list[str]) -> Role:
    more = tuple(need for need in dict.fromkeys(stated) if need != name and need not in role.requires)
    return replace(role, requires=(*role.requires, *more), attached=more) if more else role

"""Boot environments: one a row, and one with its nodes."""

from __future__ import annotations

from nodepool_ocb.engine.world import World
from nodepool_ocb.model.boot import SHIPPED, Bootenv
from nodepool_ocb.provisioning import bootenvs
from nodepool_ocb.provisioning.publications import unpublished
from nodepool_ocb.views.view import View


class BootenvRow(View, frozen=True, kw_only=True):
    """A boot environment at a glance."""

    name: str
    kind: str
    image: str | None
    nodes: int  # with this environment
    origin: str  # shipped, changed (a shipped one with a record) or own
    description: str | None


class BootenvDocument(View, frozen=True, kw_only=True):
    """One boot environment."""

    name: str
    kind: str
    image: str | None
    arguments: str
    script: str  # of iPXE
    secure: bool  # machines with UEFI boot by shim and GRUB
    origin: str
    description: str | None
    nodes: tuple[str, ...]
    unpublished: dict[str, tuple[str, ...]]  # node → the living servers that do not have its files yet


def rows(world: World) -> list[BootenvRow]:
    """All boot environments, by name."""
    return [
        BootenvRow(
            name=name,
            kind=str(each.kind),
            image=each.image or None,
            nodes=len(_nodes(world, name)),
            origin=_origin(world, name),
            description=each.description or None,
        )
        for name, each in sorted(bootenvs.known(world).items())
    ]


def document(world: World, name: str, bootenv: Bootenv) -> BootenvDocument:
    """One boot environment."""
    nodes = _nodes(world, name)
    waiting = {fqdn: unpublished(world, fqdn) for fqdn in nodes}
    return BootenvDocument(
        name=name,
        kind=str(bootenv.kind),
        image=bootenv.image or None,
        arguments=bootenv.arguments,
        script=(bootenv.script or bootenvs.SCRIPT) if bootenv.image else "",
        secure=bootenv.secure,
        origin=_origin(world, name),
        description=bootenv.description or None,
        nodes=tuple(nodes),
        unpublished={fqdn: servers for fqdn, servers in waiting.items() if servers},
    )


def _nodes(world: World, name: str) -> list[str]:
    return sorted(view.name for view in world.nodes.values() if view.record is not None and view.record.bootenv == name)


def _origin(world: World, name: str) -> str:
    if name not in world.of(Bootenv):
        return "shipped"
    return "changed" if name in SHIPPED else "own"

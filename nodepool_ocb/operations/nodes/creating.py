"""``node create``: one node, or many with names and addresses from a template."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import nodes
from nodepool_ocb.engine.acting.annealers import active_jigs
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.ranges import Login
from nodepool_ocb.model.records import Json, Node
from nodepool_ocb.operations import assignments
from nodepool_ocb.operations.names import deployment_of
from nodepool_ocb.operations.networks import placement
from nodepool_ocb.operations.nodes.domain import admin_domain
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import bootenvs

PLACE: Final = re.compile(r"\{(?::0(\d))?\}")  # of the number in a template, and its least digits


class NewNode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The fields of a node that its creator chooses; annealers and hooks fill the others of the record."""

    deployment: str = "system"
    admin: bool = False  # it gets the bootstrap roles instead of the discovery roles
    virtual: bool = False  # no machine is behind it
    available: bool = True  # annealers may work on it
    addresses: tuple[str, ...] = ()  # "host" or "host:port", tried in order; without one it cannot be reached
    user: Login = "root"
    host_keys: tuple[str, ...] = ()  # pinned: "ssh-ed25519 AAAA..."
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    rack: str | None = None
    bootenv: str = "local"
    hints: Mapping[str, Json] = {}
    macs: tuple[str, ...] = ()  # of its boot NICs, beside that of the hint admin-mac

    @property
    def record(self) -> Node:
        """The record of the new node. Raises Invalid for a value that no such field can have."""
        try:
            assignments.host_keys(self.host_keys)
            assignments.checked_tags(self.tags)
        except ValueError as wrong:
            raise Invalid(str(wrong)) from None
        return Node(**{name: getattr(self, name) for name in self.__struct_fields__})


class NodeCreate(Operation[Explained], frozen=True, kw_only=True):
    """Create a node; the roles for new nodes are bound to it, unless it is virtual.

    With ``count``, ``name`` and each address are templates. Each node is a round: nodes that were made stay if a later one fails.
    """

    noun = "node"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadWorld, *placement.READS)
    writes = ("node", "noderole", "deployment role", *placement.WRITES)

    name: str
    node: NewNode = NewNode()
    as_configured: bool = False  # ``available`` is as the configuration of the performer's host says
    count: int | None = None
    first: int = 1  # the lowest number, with ``count``
    network: str | None = None  # that it gets the lowest free address of

    @property
    def rounds(self) -> int:
        return self.count or 1

    def decide(self, situation: Situation) -> Steps[Explained]:
        world = yield from ReadWorld()
        deployment_of(world, self.node.deployment)
        bootenvs.refuse_unknown(world, self.node.bootenv)
        fqdn, node = self._free(world, {change.path for change in situation.written})
        if self.as_configured:
            node = replace(node, available=situation.settings.nodes.available)
        nodes.refuse_taken(world, fqdn)
        placed = yield from placement.created(world, situation, fqdn, node, self.network)
        plan = nodes.create(
            world,
            fqdn,
            placed.node,
            admin_domain=admin_domain(world, situation.settings),
            now=situation.now,
            jigs=active_jigs(world),
            by=situation.by,
        )
        yield [*placed.changes, *plan.changes]
        notes = (*plan.elsewhere, *placed.notes)
        return Explained(explanations=(*plan.explanations, *placed.gained), notes=notes)

    def _free(self, world: World, taken: Set[str]) -> tuple[str, Node]:
        """With the lowest free number; ``taken``: the paths that a dry run would have made."""
        if self.count is None:
            return self.name, self.node.record
        there = {paths.node(name) for name in world.nodes} | taken | world.unreadable.keys()
        number = next(n for n in itertools.count(self.first) if paths.node(filled(self.name, n)) not in there)
        addresses = tuple(filled(address, number) for address in self.node.addresses)
        return filled(self.name, number), replace(self.node.record, addresses=addresses)


def is_template(text: str) -> bool:
    """True if the text has a place for a number."""
    return PLACE.search(text) is not None


def filled(template: str, number: int) -> str:
    """The template with a number in each place.

    >>> filled("web-{:03}.example.com", 7), filled("10.0.0.{}", 7)
    ('web-007.example.com', '10.0.0.7')
    """
    return PLACE.sub(lambda place: f"{number:0{place.group(1) or 1}d}", template)

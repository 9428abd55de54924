"""Site files and the worlds that they are applied to, without any ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents import written
from nodepool_ocb.engine.advancing import advance, copied
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Attrib, Change, Create, Deployment, DeploymentState, Json, Role, Set
from nodepool_ocb.site import exporting, reading
from nodepool_ocb.site.desired_state import Circumstances, DesiredState, StoredAttributes
from nodepool_ocb.site.plan import SitePlan, plan

#: top needs middle, which needs base; member is a cluster, and all needs every member.
ROLES = {
    "base": Role(barclamp="b", jig="noop", attribs=(Attrib(name="size", map="size"),)),
    "middle": Role(barclamp="b", jig="noop", requires=("base",)),
    "top": Role(barclamp="b", jig="noop", requires=("middle",), attribs=(Attrib(name="a", map="a"),)),
    "member": Role(barclamp="b", jig="noop", flags=("cluster",)),
    "all": Role(barclamp="b", jig="noop", requires=("member",)),
    "once": Role(barclamp="b", jig="noop", flags=("destructive",)),
    "rival": Role(barclamp="b", jig="noop", conflicts=("top",)),
}
NOW = Circumstances(now=100.0, by="ann")


def empty() -> World:
    """A new cluster's."""
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    return world


def with_roles() -> World:
    world = empty()
    for name, role in ROLES.items():
        world.put(Stored(role, 0), name)
    return world


def wanted(text: str, name: str = "site.yaml") -> DesiredState:
    return reading.read(documents.load_all(text, name))


def kept_after(
    transactions: Sequence[Sequence[Change]], before: Mapping[str, StoredAttributes] | None = None
) -> dict[str, StoredAttributes]:
    """The users' attributes that these write."""
    kept = dict(before or {})
    for change in (change for transaction in transactions for change in transaction):
        if change.path.endswith("/user") and isinstance(change, Create | Set):
            kept[change.path] = StoredAttributes(change.data, 0 if isinstance(change, Create) else change.version + 1)
    return kept


class Scene:
    """A world, with what users gave; ``apply`` writes a plan to it, or the beginning of one."""

    def __init__(self, world: World, kept: Mapping[str, StoredAttributes] | None = None) -> None:
        self.world, self.kept = world, dict(kept or {})

    def copy(self) -> Scene:
        return Scene(copied(self.world), self.kept)

    def plan(self, text: str, about: Circumstances = NOW) -> SitePlan:
        return plan(self.world, wanted(text), about, self.kept)

    def apply(self, text: str, first: int | None = None) -> SitePlan:
        """``first``: so many transactions, and then a crash."""
        found = self.plan(text)
        done = found.transactions[:first]
        for transaction in done:
            self._write(transaction)
        return found

    def _write(self, transaction: Sequence[Change]) -> None:
        _judge(self.world, transaction)
        advance(self.world, transaction)
        self.kept = kept_after([transaction], self.kept)

    def export(self, *, catalogue: bool = True) -> Json:
        blobs = {path: each.value for path, each in self.kept.items()}
        views = exporting.chosen(self.world)
        return msgspec.json.decode(exporting.document(self.world, views, blobs, whole=True, catalogue=catalogue))

    def exported(self) -> str:
        return written.text(self.export())


def _judge(world: World, transaction: Sequence[Change]) -> None:
    """What ZooKeeper would refuse, of what a world shows: another version of the structure, of a node, of a noderole."""
    assert world.structure is not None
    versions = {paths.STRUCTURE: world.structure.version}
    versions |= {paths.node(name): view.version for name, view in world.nodes.items() if view.record}
    versions |= {paths.noderole(v.role, v.node.name): v.version for v in world.vertices()}
    versions |= {paths.deployment(name): stored.version for name, stored in world.deployments.items()}
    versions |= {paths.deployment_role(*key): stored.version for key, stored in world.deployment_roles.items()}
    versions |= {paths.gate(c.deployment, c.role): c.gate for c in world.clusters.values() if c.gate >= 0}
    for change in transaction:
        version = getattr(change, "version", None)
        if change.path in versions and version is not None:
            assert versions[change.path] == version, change
        assert not (isinstance(change, Create) and change.path in versions), change

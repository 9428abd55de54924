"""``bootenv create``, ``set`` and ``delete``: the environments that machines boot from the network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodepool_ocb.documents.counting import some
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import unreadable
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import SHIPPED, Bootenv, BootenvKind
from nodepool_ocb.model.records import Create, Delete, Set
from nodepool_ocb.operations import assignments as assigning
from nodepool_ocb.operations.names import unknown
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.networks import EnsureBootenvs
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.provisioning import bootenvs

KEYS: Final = ("kind", "image", "arguments", "script", "secure", "description")


def bootenv_of(world: World, name: str) -> Bootenv:
    """Raises NotFound, or Conflict for a record that cannot be read."""
    unreadable.refuse(world, [paths.bootenv(name)])
    known = bootenvs.known(world)
    if name not in known:
        raise unknown("bootenv", name, known)
    return known[name]


def assigned(name: str, before: Bootenv, words: Iterable[str]) -> Bootenv:
    """The record with KEY=VALUE; raises Invalid with each fault."""
    fields: dict[str, str] = {key: getattr(before, key) for key in KEYS} | {"secure": str(before.secure).lower()}
    problems: list[str] = []
    for key, value in assigning.pairs(words):
        if key not in KEYS:
            known = did_you_mean(key, KEYS) or f"; known are {', '.join(KEYS)}"
            problems.append(f"a boot environment has no field {key!r}{known}")
        elif key == "kind" and value not in list(BootenvKind):
            problems.append(f"kind={value}: write one of {', '.join(BootenvKind)}")
        elif key == "secure" and value not in ("true", "false"):
            problems.append(f"secure={value}: write true or false")
        else:
            fields[key] = value
    after = Bootenv(
        unknown=before.unknown,
        kind=BootenvKind(fields["kind"]),
        image=fields["image"],
        arguments=fields["arguments"],
        script=fields["script"],
        secure=fields["secure"] == "true",
        description=fields["description"],
    )
    problems += [] if problems else [f"boot environment {name}: {fault}" for fault in bootenvs.faults(name, after)]
    if problems:
        raise Invalid(problems)
    return after


class BootenvCreate(Operation[Explained], frozen=True, kw_only=True):
    """Create a boot environment. Its texts are checked: names in braces must be values of a node."""

    noun = "bootenv"
    verb = "create"
    right = Right.OPERATOR
    reads = (ReadWorld, EnsureBootenvs)
    writes = ("boot environment",)

    name: str
    assignments: tuple[str, ...] = ()  # KEY=VALUE

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        given = [key for key, _ in assigning.pairs(self.assignments)]
        if "kind" not in given:
            raise Invalid(f"boot environment {self.name}: write kind=KIND, one of {', '.join(BootenvKind)}")
        record = assigned(self.name, Bootenv(kind=BootenvKind.LOCAL), self.assignments)
        unreadable.refuse(world, [paths.bootenv(self.name)])
        stored = world.of(Bootenv).get(self.name)
        if stored is not None and stored.record == record:
            return Explained()  # a repetition, or the same call: its answer was lost
        if self.name in bootenvs.known(world):
            raise Conflict(
                f"boot environment {self.name} exists already; change it: nodepool-ocb bootenv set {self.name}"
            )
        yield from EnsureBootenvs()
        yield [Create(paths.bootenv(self.name), record)]
        return Explained()


class BootenvSet(Operation[Explained], frozen=True, kw_only=True):
    """Change a boot environment, also a shipped one. Servers write the files of its nodes again."""

    noun = "bootenv"
    verb = "set"
    right = Right.OPERATOR
    reads = (ReadWorld, EnsureBootenvs)
    writes = ("boot environment",)

    bootenv: str
    assignments: tuple[str, ...]  # KEY=VALUE

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        before = bootenv_of(world, self.bootenv)
        after = assigned(self.bootenv, before, self.assignments)
        if self.bootenv in SHIPPED and after.kind is not before.kind:
            raise Conflict(f"boot environment {self.bootenv} is shipped, and stays of kind {before.kind}")
        if after == before:
            return Explained()
        stored = world.of(Bootenv).get(self.bootenv)
        if stored is None:
            yield from EnsureBootenvs()
            yield [Create(paths.bootenv(self.bootenv), after)]
        else:
            yield [Set(paths.bootenv(self.bootenv), after, stored.version)]
        return Explained()


class BootenvDelete(Operation[Explained], frozen=True, kw_only=True):
    """Delete a boot environment that no node has; a shipped one returns to its shipped form."""

    noun = "bootenv"
    verb = "delete"
    right = Right.OPERATOR
    reads = (ReadWorld,)
    writes = ("boot environment",)

    bootenv: str

    def decide(self, situation: Situation) -> Steps[Explained]:  # noqa: ARG002
        world = yield from ReadWorld()
        bootenv_of(world, self.bootenv)
        stored = world.of(Bootenv).get(self.bootenv)
        if stored is None:
            raise Conflict(f"boot environment {self.bootenv} is shipped, and unchanged: there is nothing to delete")
        users = [view.name for view in world.nodes.values() if view.record and view.record.bootenv == self.bootenv]
        if users and self.bootenv not in SHIPPED:
            first = f"first: nodepool-ocb node set {users[0]} bootenv=local"
            raise Conflict(f"boot environment {self.bootenv} is in use by {some(sorted(users))}; {first}")
        yield [Delete(paths.bootenv(self.bootenv), stored.version)]
        return Explained()

"""``secret rotate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from nodepool_ocb.engine import powering
from nodepool_ocb.engine.inputs import concealing
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Json, Role, Set
from nodepool_ocb.operations import owners
from nodepool_ocb.operations.names import catalogue
from nodepool_ocb.operations.operation import Explained, Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.noderoles import OwnedBlob
from nodepool_ocb.operations.reads.secrets import OldValue, ReadKeyIds, RotatedValues, RotateValues
from nodepool_ocb.operations.reads.world import ReadWorld


class SecretsRotated(Explained, frozen=True, kw_only=True):
    """The answer of a rotation. ``unopened``: owner and place of each secret that no key opens → the reason."""

    unopened: Mapping[str, str] = msgspec.field(default_factory=dict)


class SecretRotate(Operation[SecretsRotated], frozen=True, kw_only=True):
    """Encrypt with the first key every secret of an older key, and every plain text that its role declares as secret.

    It may be stopped and repeated. Raises Conflict without a key; a secret that no key opens stays as it is.
    """

    noun = "secret"
    verb = "rotate"
    right = Right.ADMIN
    reads = (ReadWorld, ReadKeyIds, RotateValues, *owners.READS)
    writes = ("attributes", "deployment role", "power")

    def decide(self, situation: Situation) -> Steps[SecretsRotated]:  # noqa: ARG002
        world = yield from ReadWorld()
        if not (yield from ReadKeyIds()):
            raise Conflict("there is no key here: set secrets.key_file; to make a key: nodepool-ocb secret keygen FILE")
        blobs = yield from owners.blobs(world)
        rotated = yield from RotateValues(tuple(_old_values(world, blobs)))
        yield from limits.parts(limits.singly(_changes(world, blobs, rotated)))
        return SecretsRotated(unopened=rotated.unopened)


def _old_values(world: World, blobs: list[OwnedBlob]) -> Iterator[OldValue]:
    """The user and the system layer of each role in a deployment, attributes of noderoles, then passwords of BMCs."""
    known = catalogue(world)
    for (deployment, role), stored in sorted(world.deployment_roles.items()):
        for layer in (stored.record.user, stored.record.system):
            yield _old_value(known, f"{role} in {deployment}", role, layer)
    for each in blobs:
        yield _old_value(known, each.name, each.role, each.value)
    for name, value in owners.passwords(world).items():
        yield OldValue(name, value)


def _old_value(known: Mapping[str, Role], name: str, role: str, value: Json) -> OldValue:
    return OldValue(name, value, tuple(concealing.plain(known, role, value)))


def _changes(world: World, blobs: list[OwnedBlob], rotated: RotatedValues) -> Iterator[Change]:
    """A change for each record with a value that differs; ``rotated`` is in the order of ``_old_values``."""
    values = iter(rotated.values)
    for key, stored in sorted(world.deployment_roles.items()):
        user, system = next(values), next(values)
        if (user, system) != (stored.record.user, stored.record.system):
            yield Set(paths.deployment_role(*key), replace(stored.record, user=user, system=system), stored.version)
    for each in blobs:
        if (after := next(values)) != each.value:
            yield Set(each.path, after, each.version)
    for fqdn, power in sorted(powering.powers(world).items()):
        record = power.record
        changed = {name: next(values)["power"]["password"] for name, _ in owners.passwords_of(record)}
        password, fresh = (changed.get("password", record.password), changed.get("fresh", record.fresh))
        after = replace(record, password=password, fresh=fresh)
        if after != record:
            yield Set(paths.power(fqdn), after, power.version)

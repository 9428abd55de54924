"""``acl check`` and ``acl init``: the rights of all znodes, compared with the configuration, and set."""

from __future__ import annotations

from nodepool_ocb.operations.operation import Operation, Right, Situation, Steps
from nodepool_ocb.operations.reads.clusters import (
    CompareRights,
    EnsureParents,
    FoundRights,
    MissingParents,
    RightsOfPeople,
    SetRights,
)


class AclCheck(Operation[FoundRights], frozen=True, kw_only=True):
    """The znodes with rights that differ from the configuration."""

    noun = "acl"
    verb = "check"
    right = Right.VIEWER
    reads = (CompareRights,)

    def decide(self, situation: Situation) -> Steps[FoundRights]:  # noqa: ARG002
        return (yield from CompareRights())


class RightsSet(FoundRights, frozen=True):
    """The rows are the znodes that were set; in a dry run those that would be."""

    absent: tuple[str, ...] = ()  # of a dry run: the paths of the znodes that would be made


class AclInit(Operation[RightsSet], frozen=True, kw_only=True):
    """Set the rights of all znodes, and make the znodes that daemons need and may not make.

    It may be stopped and repeated. Raises Denied for a user that is not the user of people.
    """

    noun = "acl"
    verb = "init"
    right = Right.ADMIN
    reads = (RightsOfPeople, CompareRights, MissingParents, SetRights, EnsureParents)
    writes = ("rights",)

    def decide(self, situation: Situation) -> Steps[RightsSet]:
        yield from RightsOfPeople()  # a dry run is refused as the command is
        if situation.call.dry_run:
            would = yield from CompareRights()
            return RightsSet(would.rows, would.denied, (yield from MissingParents()))
        found = yield from SetRights()
        if not found.denied:
            yield from EnsureParents()
        return RightsSet(found.rows, found.denied)

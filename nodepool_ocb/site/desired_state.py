"""The contents of site files as typed values: each thing with the place where it is written.

None means that the files do not set it: it stays as it is. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import msgspec

from nodepool_ocb.documents.plainyaml import Fault
from nodepool_ocb.errors import Conflict, Invalid, NotFound, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Checks
from nodepool_ocb.model.records import DeploymentState, Json, Once, Role
from nodepool_ocb.provisioning.addressing import macs
from nodepool_ocb.provisioning.addressing.found import FoundHoldings

Blob = Mapping[str, Json]


class Commitment(StrEnum):
    """Whether annealers are to have a noderole."""

    PROPOSED = "PROPOSED"
    COMMITTED = "COMMITTED"  # in whichever state it is then


class SourceLocation(msgspec.Struct, frozen=True):
    """The place in a file at which a value is written."""

    file: str
    line: int
    path: str = ""

    def fault(self, text: str) -> str:
        """``FILE:LINE: PATH: sentence``."""
        return Fault(self.line, text, self.path).at(self.file)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Add the place in the file to Invalid, Conflict and NotFound raised inside; Stale passes unchanged."""
        try:
            yield
        except Stale:
            raise
        except Invalid as wrong:
            raise Invalid([self.fault(problem) for problem in wrong.problems]) from wrong
        except (Conflict, NotFound) as wrong:
            raise type(wrong)(self.fault(str(wrong))) from wrong

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class DesiredRole(msgspec.Struct, frozen=True):
    """A role, whole."""

    name: str
    place: SourceLocation
    record: Role


class DesiredDeployment(msgspec.Struct, frozen=True):
    """A deployment; ``roles``: the attributes of a role in it, None if the role alone must be there."""

    name: str
    place: SourceLocation
    parent: str | None = None
    state: DeploymentState | None = None
    checks: Checks | None = None  # ``since`` is not said
    roles: Mapping[str, Blob | None] = {}


class DesiredNetwork(msgspec.Struct, frozen=True):
    """A network with the fields that the files set."""

    name: str
    place: SourceLocation
    fields: Mapping[str, Json] = {}


class DesiredNoderole(msgspec.Struct, frozen=True):
    """A role on a node."""

    role: str
    fqdn: str
    place: SourceLocation
    deployment: str | None = None
    state: Commitment | None = None
    parents: tuple[str, ...] | None = None  # all of them, "role@fqdn" or "role@*deployment"; None: as a bind chooses
    user: Blob | None = None
    once: Once | None = None  # used when the noderole is created: the progress of a destructive role

    @property
    def name(self) -> str:
        return paths.noderole_name(self.role, self.fqdn)


class DesiredNode(msgspec.Struct, frozen=True):
    """A node with the fields that the files set; ``noderoles`` is None if the files do not list them.

    A list is a tuple in ``fields``, as in a Node, also after a way through JSON. MACs are spelled and ordered as in a Node.
    """

    fqdn: str
    place: SourceLocation
    fields: Mapping[str, Any] = {}
    noderoles: tuple[DesiredNoderole, ...] | None = None

    def __post_init__(self) -> None:
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in self.fields.items()
        }
        if "macs" in fields:
            fields["macs"] = macs.spelled(fields.get("hints", {}).get("admin-mac"), fields["macs"])
        if "networks" in fields:
            fields["networks"] = {name: tuple(each) for name, each in fields["networks"].items()}
        msgspec.structs.force_setattr(self, "fields", fields)


class DesiredState(msgspec.Struct, frozen=True):
    """All that site files say. ``whole``: a node that is made gets all that they say, and no role of its own accord.

    ``as_stored``: attributes are taken as they are, though no role declares them or a schema refuses them.
    """

    roles: Mapping[str, DesiredRole] = {}
    deployments: Mapping[str, DesiredDeployment] = {}
    nodes: Mapping[str, DesiredNode] = {}
    whole: bool = False
    as_stored: bool = False
    networks: Mapping[str, DesiredNetwork] = {}

    def noderoles(self) -> list[DesiredNoderole]:
        """All of them, by node."""
        return [each for _, node in sorted(self.nodes.items()) for each in node.noderoles or ()]


class StoredAttributes(msgspec.Struct, frozen=True):
    """The attributes that a noderole's user gave, as they were read; ``version`` is None if there are none."""

    value: Blob
    version: int | None


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of a plan: time, author, and the jigs of the living annealers (None: no annealer is there to
    ask).
    """

    now: float
    by: str | None = None
    jigs: frozenset[str] | None = None
    admin_domain: str | None = None
    available: bool = True  # a node of which nothing is said, once it is made
    holdings: FoundHoldings = FoundHoldings()  # of nodes that exist, and the owners of the MACs in the files

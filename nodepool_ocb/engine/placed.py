"""The graph as the rule about neighbours needs it: a noderole among parents and children, and a cluster of noderoles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from nodepool_ocb.model.records import NodeRole


class Gathered(Protocol):
    """A cluster in a graph; world.ClusterView is one."""

    @property
    def waiting(self) -> int:
        """How many members are not satisfied; 1 where there is no member."""

    @property
    def below(self) -> Sequence[Any]:
        """The noderoles that wait for all members."""


class Placed(Protocol):
    """A noderole in a graph; world.Vertex is one."""

    @property
    def name(self) -> str: ...
    @property
    def record(self) -> NodeRole: ...
    @property
    def below(self) -> Sequence[Any]:
        """The noderoles that name it as a parent."""

    @property
    def clusters(self) -> Sequence[Gathered]:
        """The clusters that it is a member of."""

    @property
    def hooks(self) -> Sequence[str]:
        """The hooks that its role has."""

    @property
    def destructive(self) -> bool:
        """Whether its role must not be run a second time."""

    @property
    def waiting(self) -> int:
        """How many parents are not satisfied, those that do not exist (yet) included; a cluster counts as one."""

    @property
    def lacking(self) -> int:
        """``waiting``, without the parents that have unreadable records."""

    @property
    def certain(self) -> bool:
        """Whether every record can be read, its own and all others; asked first, as it costs least."""

    @property
    def unreadable(self) -> bool:
        """Whether its own record cannot be read."""

    @property
    def unknown(self) -> Sequence[str]:
        """The parents with unreadable records."""

"""The name of an execution, a rollout or a run of tasks, as people write and read it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """The deployment and the id of an execution.

    >>> str(Key("lab", "0000000003"))
    'lab/0000000003'
    """

    deployment: str
    id: str

    def __str__(self) -> str:
        return f"{self.deployment}/{self.id}"

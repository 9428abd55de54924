"""All operations: each has a name of its own, by which the API is called, or is local, with the reason.

The name of an operation is its noun and its verb, ``node/bind``, or its noun alone, ``apply``. Operations that share a title have
their names in ``FORMS``. A server of the API performs every operation except those of ``LOCAL``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from nodepool_ocb import operations
from nodepool_ocb.operations.operation import Operation

#: The names of operations that share their title with another one, by class.
FORMS: Final[Mapping[str, str]] = {
    "DeploymentUnsetRole": "deployment/unset-role",
    "ImageBuildLook": "image/build-look",
    "LeaseLeaksDelete": "lease/leaks-delete",
    "NoderoleAttributesChanged": "noderole/attributes-changed",
    "NoderoleAttributesDiff": "noderole/attributes-diff",
    "NoderoleAttributesRuns": "noderole/attributes-runs",
    "NoderoleCheckLook": "noderole/check-look",
    "NoderoleCheckResults": "noderole/check-results",
    "NoderoleCommitOutdated": "noderole/commit-outdated",
    "NoderoleListRuns": "noderole/list-runs",
    "NoderoleListStates": "noderole/list-states",
    "NoderoleWaitLook": "noderole/wait-look",
    "RolloutWaitLook": "rollout/wait-look",
    "StatusWatchLook": "status/watch-look",
    "TasksWaitLook": "tasks/wait-look",
    "UploadDeleteRecords": "upload/delete-records",
    "UploadLeaksDelete": "upload/leaks-delete",
}

#: The operations that only the host of their caller performs, by class, with the reason.
LOCAL: Final[Mapping[str, str]] = {
    "AclCheck": "It compares rights with the users of the caller's configuration.",
    "AclInit": "It sets rights for the users of the caller's configuration, with a credential of ZooKeeper.",
    "InitCluster": "It makes the cluster that a server of the API belongs to.",
    "LeaseRun": "It runs a command on the caller's host, under a session with ZooKeeper that holds the lease.",
    "RestoredCluster": "All daemons are stopped meanwhile, and so are the servers of the API.",
}


def every() -> list[type[Operation[Any]]]:
    """Each operation; imports all modules of this room, so no command calls it."""
    for module in pkgutil.walk_packages(operations.__path__, f"{operations.__name__}."):
        import_module(module.name)
    named = (each for each in _below(Operation) if each.__module__.startswith(operations.__name__))
    return sorted((each for each in named if "verb" in vars(each)), key=lambda each: (each.title(), each.__name__))


def name_of(operation: type[Operation[Any]]) -> str:
    """The name by which the API is called: ``POST /v1/operations/NAME``.

    >>> class LampUnplug(Operation[None], frozen=True):
    ...     noun, verb = "lamp", "unplug"
    >>> name_of(LampUnplug)
    'lamp/unplug'
    """
    return FORMS.get(operation.__name__) or operation.title().replace(" ", "/")


def reason_local(operation: type[Operation[Any]]) -> str | None:
    """Why only the host of the caller performs it; None for an operation that a server of the API performs, too."""
    return LOCAL.get(operation.__name__)


def remote() -> dict[str, type[Operation[Any]]]:
    """The operations that a server of the API performs, by name; imports all modules of this room."""
    return {name_of(each): each for each in every() if reason_local(each) is None}


def _below(above: type[Operation[Any]]) -> Iterator[type[Operation[Any]]]:
    for each in above.__subclasses__():
        yield each
        yield from _below(each)

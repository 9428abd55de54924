"""Operations that begin work which goes on after them: the object that shows it, and the looks of a wait for its end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from nodepool_ocb.errors import Conflict, OcbError
from nodepool_ocb.model.executions import Key
from nodepool_ocb.operations import registry, waiting
from nodepool_ocb.operations.deployments.reading import DeploymentShow
from nodepool_ocb.operations.images.reading import ImageShow
from nodepool_ocb.operations.images.watching import BuildSeen, ImageBuildLook
from nodepool_ocb.operations.installations.progress import InstallationReport, InstallationShow, ReportKind
from nodepool_ocb.operations.noderoles.awaiting import NoderoleCheckLook, NoderoleWaitLook
from nodepool_ocb.operations.noderoles.checking import ChecksAsked
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderoleShow
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.operations.operation import AwaitedNoderoles, Operation, Performed
from nodepool_ocb.operations.requests.reading import RequestShow
from nodepool_ocb.operations.requests.watching import RequestSeen
from nodepool_ocb.operations.rollouts import watching as rollouts
from nodepool_ocb.operations.rollouts.reading import RolloutShow
from nodepool_ocb.operations.tasks import runs
from nodepool_ocb.operations.waiting import CheckStatus, WaitStatus
from nodepool_ocb.views.pools import RequestDocument
from nodepool_ocb.views.progress import WaitDocument
from nodepool_ocb.views.provisioning.installations import InstallationDocument

MOST_NAMED: Final = 50  # objects in the address of a list


class WorkEnd(msgspec.Struct, frozen=True):
    """The end of the work; ``document``: its result, None: that of the object."""

    outcome: str
    error: OcbError | None = None
    document: Any = None


class LongWork(msgspec.Struct, frozen=True):
    """Work that has begun. ``look`` gets the answer of the look before; ``end`` is None for a look at work that goes on."""

    shown: Operation[Any]
    look: Callable[[Any], Operation[Any]]
    end: Callable[[Any], WorkEnd | None]


def begun(operation: Operation[Any], performed: Performed[Any]) -> LongWork | None:
    """The work that a performed operation has begun; None for a dry run, and if nothing moves by it."""
    begin = BEGINS.get(registry.name_of(type(operation)))
    return None if begin is None or performed.dry_run else begin(operation, performed)


def begins(kind: type[Operation[Any]]) -> bool:
    """Whether the operation begins work that goes on after it."""
    return registry.name_of(kind) in BEGINS


# -- noderoles --


def _noderoles(operation: Operation[Any], performed: Performed[Any]) -> LongWork | None:
    if not performed.rows:
        return None
    awaited = operation.awaited(performed.answer)

    def look(before: WaitStatus | None) -> NoderoleWaitLook:
        return NoderoleWaitLook(**asdict(awaited), known=() if before is None else before.names)

    def end(found: WaitStatus) -> WorkEnd | None:
        if found.progress.outcome is None:
            return None
        document = WaitDocument(outcome=found.progress.outcome, stuck=found.progress.stuck, noderoles=found.rows)
        return WorkEnd(found.progress.outcome, waiting.error(found.progress), document)

    return LongWork(_shown(awaited, getattr(operation, "selector", None)), look, end)


def _checks(operation: Operation[Any], performed: Performed[ChecksAsked]) -> LongWork | None:
    names = tuple(performed.answer.asked)
    if not names:
        return None

    def end(found: CheckStatus) -> WorkEnd | None:
        return None if found.waiting else WorkEnd("checked")

    shown = _shown(AwaitedNoderoles(noderoles=names), getattr(operation, "selector", None))
    return LongWork(shown, lambda _: NoderoleCheckLook(noderoles=names), end)


def _shown(awaited: AwaitedNoderoles, selector: str | None) -> Operation[Any]:
    """The one object, or the list of noderoles that has all of them."""
    if awaited.deployment is not None:
        return DeploymentShow(name=awaited.deployment)
    if len(awaited.nodes) == 1:
        return NodeShow(node=awaited.nodes[0])
    if len(awaited.noderoles) == 1:
        return NoderoleShow(noderole=awaited.noderoles[0])
    names: Sequence[str] = awaited.nodes or awaited.noderoles
    return NoderoleList(selector=selector or (f"name:{','.join(names)}" if len(names) <= MOST_NAMED else None))


# -- executions --


def _rollout(_: Operation[Any], performed: Performed[Any]) -> LongWork | None:
    row = performed.answer.row
    if row is None:
        return None
    key = Key(*row.rollout.split("/"))

    def end(found: Any) -> WorkEnd | None:
        if found.found is None:
            return WorkEnd("deleted")
        ended = rollouts.end(key, found.found, fail_fast=False)
        return None if ended is None else WorkEnd(ended.outcome, ended.error)

    return LongWork(RolloutShow(rollout=str(key)), lambda _: rollouts.WATCHED.look(key), end)


def _task_run(_: Operation[Any], performed: Performed[Any]) -> LongWork | None:
    key = performed.answer.key
    if key is None:
        return None

    def end(found: Any) -> WorkEnd | None:
        if found.found is None:
            return WorkEnd("deleted")
        ended = runs.end(found.found)
        return None if ended is None else WorkEnd(ended.outcome, ended.error)

    return LongWork(runs.TasksHistory(run=str(key)), lambda _: runs.WATCHED.look(key), end)


# -- images and requests --


def _build(operation: Any, performed: Performed[Any]) -> LongWork | None:
    image, request = operation.image, performed.answer.request
    if request is None:
        return None

    def end(found: BuildSeen) -> WorkEnd | None:
        outcome = found.progress.outcome
        return None if outcome is None else WorkEnd(outcome, found.error(image))

    return LongWork(ImageShow(image=image), lambda _: ImageBuildLook(image=image, request=request), end)


def _request(_: Operation[Any], performed: Performed[Any]) -> LongWork | None:
    request = performed.answer.request
    if request is None:
        return None

    def end(found: RequestDocument) -> WorkEnd | None:
        seen = RequestSeen(found, found.row.state)
        return WorkEnd(str(seen.state), seen.error(request), found) if seen.over else None

    shown = RequestShow(request=request)
    return LongWork(shown, lambda _: shown, end)


# -- installations --


def _leave(operation: InstallationReport, _: Performed[Any]) -> LongWork | None:
    """After the last word of an installer: until its machine may leave the environment. A repeated word waits, too."""
    if operation.step not in (ReportKind.VERIFIED, ReportKind.ERASED):
        return None
    shown = InstallationShow(node=operation.node)

    def end(found: InstallationDocument) -> WorkEnd | None:
        if found.reboot:
            return WorkEnd("permitted", document=found)
        return (
            None if found.under_way else WorkEnd("failed", Conflict(found.reason or "the installation is over"), found)
        )

    return LongWork(shown, lambda _: shown, end)


#: The operations that begin such work, by name.
BEGINS: Final[Mapping[str, Callable[[Any, Performed[Any]], LongWork | None]]] = {
    "deployment/commit": _noderoles,
    "image/build": _build,
    "installation/report": _leave,
    "node/commit": _noderoles,
    "noderole/check": _checks,
    "noderole/commit": _noderoles,
    "noderole/redeploy": _noderoles,
    "noderole/refresh": _noderoles,
    "noderole/retry": _noderoles,
    "request/create": _request,
    "rollout/accept": _rollout,
    "rollout/promote": _rollout,
    "rollout/resume": _rollout,
    "rollout/retry": _rollout,
    "rollout/start": _rollout,
    "tasks/run": _task_run,
}

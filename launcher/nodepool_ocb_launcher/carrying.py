"""Carries out the instructions of the rules: transactions on requests and nodes, and works for workers.

An instruction that comes too late is dropped: a version has changed, or a lock is taken. The next turn decides again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nodepool_ocb.errors import Invalid, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import PoolNode, PoolNodeState
from nodepool_ocb.pool.instructions import (
    AdoptNode,
    AllocateNodes,
    ClaimRequest,
    DeclineRequest,
    DeleteNode,
    DeleteRequest,
    FailNode,
    FreeNode,
    FulfilRequest,
    Instruction,
    LaunchNode,
)
from nodepool_ocb.pool.views import PoolNodeView, PoolView, RequestView
from nodepool_ocb.store.pool.nodes import HeldNode, NodeWriter
from nodepool_ocb.store.pool.requests import RequestWriter
from nodepool_ocb.telemetry import metrics
from nodepool_ocb.views.history import pooling
from nodepool_ocb_launcher.context import LauncherContext
from nodepool_ocb_launcher.liveness import SlotChecks
from nodepool_ocb_launcher.records import new_fields
from nodepool_ocb_launcher.work import NodeWork
from nodepool_ocb_launcher.works import NodeWorks

log = logging.getLogger(__name__)


class InstructionCarrier:
    """Call it on the turn thread."""

    def __init__(self, context: LauncherContext, works: NodeWorks, wake: Callable[[], None]) -> None:
        self._context, self._works = context, works
        self._checks = SlotChecks(context, wake)
        self._requests = RequestWriter(context.session, context.locks, context.holder, context.journal)
        self._nodes = NodeWriter(context.session, context.locks, context.holder, context.journal)
        self._view = PoolView()

    def carry_out(self, view: PoolView, instructions: Iterable[Instruction]) -> None:
        """Carry out instructions that were decided from a view. Raises Unavailable or Denied."""
        self._view = view
        self._checks.begin_turn()
        for each in instructions:
            try:
                self._acts[type(each)](self, each)
            except Stale as other:
                metrics.STALE.inc()
                log.debug("%s: %s", type(each).__name__, other)
            except Invalid as unreadable:
                log.warning("%s: %s", type(each).__name__, unreadable)

    # -- requests --

    def _request(self, id: str, version: int) -> RequestView:
        found = self._view.requests[id]
        if found.version != version:
            raise Stale(f"request {id} was changed meanwhile; decide anew", paths.request(id))
        return found

    def _claim(self, step: ClaimRequest) -> None:
        if self._requests.claim(self._request(step.request, step.version)):
            log.info("request %s is claimed", step.request)

    def _allocate(self, step: AllocateNodes) -> None:
        nodes = [self._node(*each) for each in step.nodes]
        request = self._request(step.request, step.version)
        refusals = self._checks.refusals(nodes)
        if refusals is None:
            return  # an answer wakes the turn
        for node in nodes:
            if node.id in refusals:
                reason = f"its machine does not answer: {refusals[node.id]}"
                self._delete(DeleteNode(node=node.id, version=node.version, reason=reason))
        if not refusals:
            self._requests.allocate(request, nodes)

    def _fulfil(self, step: FulfilRequest) -> None:
        request, nodes = self._request(step.request, step.version), [self._node(*each) for each in step.nodes]
        seconds = max(0.0, self._context.session.now() - request.created)
        given = {node.id: node.record for node in nodes}
        entry = self._entry(PoolVerb.FULFIL_REQUEST, request, f"it waited {seconds:.1f} s", given)
        self._requests.fulfil(request, nodes, entry)
        metrics.REQUESTS_ENDED.labels("fulfilled").inc()
        metrics.REQUEST_SECONDS.observe(seconds)
        log.info("request %s is fulfilled by %s", step.request, ", ".join(node for node, _ in step.nodes))

    def _decline(self, step: DeclineRequest) -> None:
        request = self._request(step.request, step.version)
        if not request.ours:
            self._requests.claim(request)  # the next turn declines it
            return
        if not step.pools and not step.failed:
            self._requests.release(step.request)
            return
        if step.failed:
            entry = self._entry(PoolVerb.FAIL_REQUEST, request, step.reason)
            self._requests.fail(request, step.pools, step.reason, entry)
            metrics.REQUESTS_ENDED.labels("failed").inc()
        else:
            self._requests.decline(request, step.pools, step.reason)
        log.info("request %s %s: %s", step.request, "failed" if step.failed else "is declined", step.reason)

    def _delete_request(self, step: DeleteRequest) -> None:
        request = self._request(step.request, step.version)
        entry = self._entry(PoolVerb.EXPIRE_REQUEST, request, step.reason) if step.expired else None
        self._requests.delete(request, entry)
        log.info("request %s is deleted: %s", step.request, step.reason)

    def _entry(
        self, verb: PoolVerb, request: RequestView, reason: str, nodes: Mapping[str, PoolNode] | None = None
    ) -> Entry:
        """Of the journal, about a request."""
        return pooling.of_request(self._context.author(), verb, request.id, request.record, nodes or {}, reason)

    # -- nodes --

    def _node(self, id: str, version: int) -> PoolNodeView:
        found = self._view.nodes[id]
        if found.version != version:
            raise Stale(f"node {id} was changed meanwhile; decide anew", paths.pool_node(id))
        return found

    def _launch(self, step: LaunchNode) -> None:
        context, place = self._context, self._context.place(step.provider, step.pool)
        label = None if place is None else place[1].labels.get(step.label)
        if place is None or label is None:
            return  # the configuration was read again since the decision
        request = self._view.requests.get(step.request or "")
        fields = new_fields(step, *place, label, launcher=context.id, request=request)
        held = self._nodes.create("launch", **fields)
        if held is not None:
            log.info("node %s: launch of %s in %s/%s", held.id, step.label, step.provider, step.pool)
            self._works.add(NodeWork(self._context, held))

    def _free(self, step: FreeNode) -> None:
        self._nodes.free(self._node(step.node, step.version))
        log.info("node %s is free: %s", step.node, step.reason)

    def _adopt(self, step: AdoptNode) -> None:
        held = self._hold(step.node, step.version, "continue")
        if held is not None:
            log.info("node %s is taken over", step.node)
            self._works.add(NodeWork(self._context, held))

    def _delete(self, step: DeleteNode) -> None:
        if (work := self._works.get(step.node)) is not None:
            work.delete(step.reason)
            return
        held = self._hold(step.node, step.version, "delete")
        if held is not None:
            log.info("node %s is being deleted: %s", step.node, step.reason)
            self._works.add(NodeWork(self._context, held, deletion=step.reason))

    def _fail(self, step: FailNode) -> None:
        if self._works.get(step.node) is not None:
            return  # its work has the deadlines
        held = self._hold(step.node, step.version, "fail")
        if held is None:
            return
        state = PoolNodeState.ABORTED if step.aborted else PoolNodeState.FAILED
        try:
            entry = None if step.aborted else self._failure(step, held)
            held.enter(PoolNodeState.HOLD if step.keep else state, entry, reason=step.reason)
        except BaseException:
            held.release()  # without a work no turn looks at a node whose lock is ours
            raise
        self._works.add(NodeWork(self._context, held))

    def _failure(self, step: FailNode, held: HeldNode) -> Entry:
        return pooling.of_node(self._context.author(), PoolVerb.FAIL_NODE, held.id, held.record, step.reason)

    def _hold(self, id: str, version: int, purpose: str) -> HeldNode | None:
        """The node with its lock, at the version that was decided from."""
        if self._works.get(id) is not None:
            return None
        held = self._nodes.hold(id, f"{purpose} node {id}")
        if held is not None and held.version != version:
            held.release()
            raise Stale(f"node {id} was changed meanwhile; decide anew", paths.pool_node(id))
        return held

    _acts: Final[Mapping[type, Callable[[InstructionCarrier, Any], None]]] = {
        ClaimRequest: _claim,
        AllocateNodes: _allocate,
        LaunchNode: _launch,
        FulfilRequest: _fulfil,
        DeclineRequest: _decline,
        FreeNode: _free,
        DeleteNode: _delete,
        FailNode: _fail,
        AdoptNode: _adopt,
        DeleteRequest: _delete_request,
    }

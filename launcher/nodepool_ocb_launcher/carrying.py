"""Carries out the instructions of the rules: transactions on requests and nodes, and works for workers.

An instruction that comes too late is dropped: a version has changed, or a lock is taken. The next turn decides again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby
from typing import Any, Final

from nodepool_ocb.daemon.workers import side_by_side
from nodepool_ocb.errors import Invalid, Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Entry, PoolVerb
from nodepool_ocb.model.pool import PoolNode, PoolNodeState, launch_facts
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
from nodepool_ocb_launcher.renewing import SlotRenewals
from nodepool_ocb_launcher.work import NodeWork
from nodepool_ocb_launcher.works import NodeWorks

log = logging.getLogger(__name__)

THREADS: Final = 16  # steps that wait for ZooKeeper at a time


class InstructionCarrier:
    """Call it on the turn thread. Steps of one kind that follow each other are carried out side by side: they are
    about different requests or nodes, and each waits for an answer of ZooKeeper.
    """

    def __init__(self, context: LauncherContext, works: NodeWorks, wake: Callable[[], None]) -> None:
        self._context, self._works = context, works
        self._checks = SlotChecks(context, wake)
        self._requests = RequestWriter(context.session, context.locks, context.holder, context.journal)
        self._nodes = NodeWriter(context.session, context.locks, context.holder, context.journal)
        self._renewals = SlotRenewals(context, works, self._nodes)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="carry")
        self._view = PoolView()

    def carry_out(self, view: PoolView, instructions: Iterable[Instruction]) -> None:
        """Carry out instructions that were decided from a view. Raises Unavailable or Denied."""
        self._view = view
        self._checks.begin_turn()
        for _, group in groupby(instructions, type):
            steps = self._renewals.begin(view, self._answered(list(group)))
            begun: list[NodeWork | None] = [None] * len(steps)
            try:
                side_by_side(self._threads, [partial(self._carry, *each, begun) for each in enumerate(steps)])
            finally:  # a node with our lock and without a work would be left alone
                for work in begun:
                    if work is not None:
                        self._works.add(work)

    def _carry(self, place: int, step: Instruction, begun: list[NodeWork | None]) -> None:
        """Carry out a step; the work that begins with it gets a place among those that begin."""
        try:
            begun[place] = self._acts[type(step)](self, step)
        except Stale as other:
            metrics.STALE.inc()
            log.debug("%s: %s", type(step).__name__, other)
        except Invalid as unreadable:
            log.warning("%s: %s", type(step).__name__, unreadable)

    def _answered(self, steps: list[Instruction]) -> list[Instruction]:
        """The steps with the machines of their nodes answering. A node with a machine that does not is deleted instead."""
        nodes = [self._asked(each) for each in steps]
        self._checks.begin(chain.from_iterable(nodes))
        found: list[Instruction] = []
        for step, asked in zip(steps, nodes, strict=True):
            refusals = self._checks.refusals(asked)
            if refusals is None:
                continue  # an answer wakes the turn
            if not refusals:
                found.append(step)
            for node in asked:
                if node.id in refusals:
                    reason = f"its machine does not answer: {refusals[node.id]}"
                    found.append(DeleteNode(node=node.id, version=node.version, reason=reason))
        return found

    def _asked(self, step: Instruction) -> list[PoolNodeView]:
        """The nodes that the step takes from the ready ones."""
        return [self._view.nodes[id] for id, _ in step.nodes] if isinstance(step, ClaimRequest | AllocateNodes) else []

    # -- requests --

    def _request(self, id: str, version: int) -> RequestView:
        found = self._view.requests[id]
        if found.version != version:
            raise Stale(f"request {id} was changed meanwhile; decide anew", paths.request(id))
        return found

    def _claim(self, step: ClaimRequest) -> None:
        request, nodes = self._request(step.request, step.version), [self._node(*each) for each in step.nodes]
        if nodes and self._requests.hand_out(request, nodes, self._end(request, nodes)):
            self._fulfilled(request, nodes)
        elif self._requests.claim(request):
            log.info("request %s is claimed", step.request)

    def _allocate(self, step: AllocateNodes) -> None:
        nodes = [self._node(*each) for each in step.nodes]
        self._requests.allocate(self._request(step.request, step.version), nodes)

    def _fulfil(self, step: FulfilRequest) -> None:
        request, nodes = self._request(step.request, step.version), [self._node(*each) for each in step.nodes]
        self._requests.fulfil(request, nodes, self._end(request, nodes))
        self._fulfilled(request, nodes)

    def _fulfilled(self, request: RequestView, nodes: Iterable[PoolNodeView]) -> None:
        metrics.REQUESTS_ENDED.labels("fulfilled").inc()
        metrics.REQUEST_SECONDS.observe(self._waited(request))
        log.info("request %s is fulfilled by %s", request.id, ", ".join(node.id for node in nodes))

    def _waited(self, request: RequestView) -> float:
        """Seconds since the request was made."""
        return max(0.0, self._context.session.now() - request.created)

    def _end(self, request: RequestView, nodes: Iterable[PoolNodeView]) -> Entry:
        """The entry of a request that gets these nodes."""
        given = {node.id: node.record for node in nodes}
        return self._entry(PoolVerb.FULFIL_REQUEST, request, f"it waited {self._waited(request):.1f} s", given)

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

    def _launch(self, step: LaunchNode) -> NodeWork | None:
        context, place = self._context, self._context.place(step.provider, step.pool)
        label = None if place is None else place[1].labels.get(step.label)
        if place is None or label is None:
            return None  # the configuration was read again since the decision
        request = self._view.requests.get(step.request or "")
        fields = new_fields(step, *place, label, launcher=context.id, request=request)
        held = self._nodes.create("launch", **fields)
        if held is None:
            return None
        log.info("node %s: launch of %s in %s/%s", held.id, step.label, step.provider, step.pool)
        return NodeWork(self._context, held)

    def _free(self, step: FreeNode) -> None:
        self._nodes.free(self._node(step.node, step.version))
        log.info("node %s is free: %s", step.node, step.reason)

    def _adopt(self, step: AdoptNode) -> NodeWork | None:
        held = self._hold(step.node, step.version, "continue")
        if held is None:
            return None
        log.info("node %s is taken over", step.node)
        return NodeWork(self._context, held)

    def _delete(self, step: DeleteNode) -> NodeWork | None:
        if (work := self._works.get(step.node)) is not None:
            work.delete(step.reason)
            return None
        if self._drop(step):
            return None
        held = self._hold(step.node, step.version, "delete")
        if held is None:
            return None
        log.info("node %s is being deleted: %s", step.node, step.reason)
        return NodeWork(self._context, held, deletion=step.reason)

    def _drop(self, step: DeleteNode) -> bool:
        """Delete the record of a returned slot, if nothing is to be done for its machine; False: a work must delete it."""
        node = self._node(step.node, step.version)
        record, facts = node.record, launch_facts(node.record)
        calls = self._context.providers.get(record.provider or "")
        enrolled = facts is not None and facts.fqdn is not None
        if calls is None or calls.deletes or enrolled or record.state is not PoolNodeState.USED:
            return False
        entry = pooling.of_node(self._context.author(), PoolVerb.DELETE_NODE, node.id, record, step.reason)
        if not self._nodes.drop(node, entry):
            return False
        metrics.MACHINES_DELETED.labels(calls.name).inc()
        log.info("node %s is deleted: %s", node.id, step.reason)
        return True

    def _fail(self, step: FailNode) -> NodeWork | None:
        if self._works.get(step.node) is not None:
            return None  # its work has the deadlines
        held = self._hold(step.node, step.version, "fail")
        if held is None:
            return None
        state = PoolNodeState.ABORTED if step.aborted else PoolNodeState.FAILED
        try:
            entry = None if step.aborted else self._failure(step, held)
            held.enter(PoolNodeState.HOLD if step.keep else state, entry, reason=step.reason)
        except BaseException:
            held.release()  # without a work no turn looks at a node whose lock is ours
            raise
        return NodeWork(self._context, held)

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

    _acts: Final[Mapping[type, Callable[[InstructionCarrier, Any], NodeWork | None]]] = {
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

"""A world of launchers, providers and requesters that carries out the steps of the rules, with a clock of its own.

Launches, deletions and the use of nodes take time. A launcher may die: its locks go then. Each step is carried out only if the
versions still agree, as the store does it. After each turn the invariants of the world are checked.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.model.pool import PoolNode, PoolNodeState, RequestState, launch_facts
from nodepool_ocb.pool.capacity.amounts import amounts
from nodepool_ocb.pool.configuration import PoolConfiguration
from nodepool_ocb.pool.deciding import decide
from nodepool_ocb.pool.instructions import AllocateNodes, FulfilRequest, Instruction
from nodepool_ocb.pool.launches.refusals import machines as counted
from nodepool_ocb.pool.states import (
    PoolNodeEvent,
    RequestEvent,
    new_pool_node,
    pool_node_after,
    pool_node_in,
    request_after,
)
from nodepool_ocb.pool.views import PoolMember, PoolNodeView, PoolView, ReadyImage, RequestView
from tests.pool.poolworld import launcher, members, request

LAUNCH_SECONDS = 20.0
DELETE_SECONDS = 5.0
REFUSAL_SECONDS = 1.0  # until a full provider answers
USER = -1  # a requester as the holder of a lock


class PoolSimulation:
    """``launchers``: the configuration of each, by session. ``lives``: the seconds of use, by label."""

    def __init__(
        self, launchers: dict[int, PoolConfiguration], lives: dict[str, float], seed: int = 0, known: bool = True
    ) -> None:
        self.launchers, self.lives, self.known = dict(launchers), lives, known
        self.random = random.Random(seed)
        self.now = 1_000_000.0
        self.requests: dict[str, RequestView] = {}
        self.nodes: dict[str, PoolNodeView] = {}
        self.request_locks: dict[str, int] = {}
        self.node_locks: dict[str, int] = {}
        self.images: dict[tuple[str, str], ReadyImage] = {}
        self.others: tuple[PoolMember, ...] = ()
        self.faults: dict[str, str] = {}
        self.launch: Callable[[PoolNodeView], str] = lambda _: "ready"  # or "failed", "aborted"
        self.rooms: dict[str, int] = {}  # provider → the machines that it takes, whatever quota it reports
        self.machines: set[str] = set()
        self.started: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.log: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers, self._ids = count(), count(1)
        self._versions = count(1)

    # -- people and time --

    def ask(self, *types: str, **fields: Any) -> str:
        """A request from now on; gives its id."""
        made = request(str(next(self._ids)), *types, created=self.now, **fields)
        self.requests[made.id] = replace(made, record=replace(made.record, state_time=self.now))
        return made.id

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act))

    def die(self, session: int) -> None:
        """A launcher dies with its locks; its work stops."""
        del self.launchers[session]
        self.request_locks = {id: each for id, each in self.request_locks.items() if each != session}
        self.node_locks = {id: each for id, each in self.node_locks.items() if each != session}

    def run(self, until: Callable[[], bool], seconds: float) -> None:
        """Turns and events until a condition; it fails after ``seconds`` of the world's time."""
        end = self.now + seconds
        while not until():
            wake = self.turns()
            if until():
                return
            event = self._events[0][0] if self._events else float("inf")
            self.now = min(event, self.now + wake)
            assert self.now <= end, f"nothing happens any more, or too late:\n{self.picture()}"
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()

    def turns(self) -> float:
        """Each launcher decides until none has a step; gives the seconds until the first wants to decide again."""
        wake = float("inf")
        for _ in range(1000):
            busy, wake = False, float("inf")
            for session in self.random.sample(sorted(self.launchers), len(self.launchers)):
                configuration = self.launchers[session]
                decision = decide(self.view(session), configuration, launcher(configuration, session), self.now)
                done = [step for step in decision.steps if self.carry_out(session, step)]
                self.check()
                busy |= bool(done)
                if decision.seconds is not None:
                    assert decision.seconds > 0 or decision.steps, "it decides again at once, without a step"
                    wake = min(wake, decision.seconds)
            if not busy:
                return wake
        raise AssertionError(f"the launchers find no rest:\n{self.picture()}")

    def view(self, session: int) -> PoolView:
        requests = {
            each.id: replace(each, locked_by=self._name(each.id), ours=self.request_locks.get(each.id) == session)
            for each in self.requests.values()
        }
        nodes = {
            each.id: replace(each, locked=each.id in self.node_locks, ours=self.node_locks.get(each.id) == session)
            for each in self.nodes.values()
        }
        running = tuple(each for one, configuration in self.launchers.items() for each in members(configuration, one))
        return PoolView(
            requests=requests,
            nodes=nodes,
            members=running + self.others,
            images=self.images,
            faults=self.faults,
            lives={label: life + LAUNCH_SECONDS + DELETE_SECONDS for label, life in self.lives.items()}
            if self.known
            else {},
        )

    def _name(self, id: str) -> str | None:
        holder = self.request_locks.get(id)
        return None if holder is None else f"host{holder}"

    # -- steps --

    def carry_out(self, session: int, step: Instruction) -> bool:
        """Whether the step was carried out."""
        done = getattr(self, "_" + type(step).__name__)(session, step)
        if done:
            self.log.append(f"{self.now - 1_000_000:8.1f} {session}: {step}")
        return bool(done)

    def _fresh(self, id: str, version: int, session: int) -> RequestView | None:
        found = self.requests.get(id)
        if found is None or found.version != version or self.request_locks.get(id, session) != session:
            return None
        return found

    def _node(self, id: str, version: int) -> PoolNodeView | None:
        found = self.nodes.get(id)
        return found if found is not None and found.version == version else None

    def _put_request(self, found: RequestView, event: RequestEvent, **fields: Any) -> None:
        record = request_after(found.record, event, self.now, **fields)
        self.requests[found.id] = replace(found, record=record, version=next(self._versions))

    def _put_node(self, found: PoolNodeView, record: PoolNode) -> None:
        self.nodes[found.id] = replace(found, record=record, version=next(self._versions))

    def _ClaimRequest(self, session: int, step: Any) -> bool:
        found = self._fresh(step.request, step.version, session)
        if found is None or found.id in self.request_locks:
            return False
        self.request_locks[found.id] = session
        self._put_request(found, RequestEvent.CLAIM)
        return self._hand_out(session, step) if step.nodes else True

    def _hand_out(self, session: int, step: Any) -> bool:
        """The rest of a claim with nodes; one that comes too late changes nothing beyond the claim."""
        allocation = AllocateNodes(request=step.request, version=self._version(step.request), nodes=step.nodes)
        if self._AllocateNodes(session, allocation):
            nodes = tuple((id, self.nodes[id].version) for id, _ in step.nodes)
            self._FulfilRequest(
                session, FulfilRequest(request=step.request, version=self._version(step.request), nodes=nodes)
            )
        return True

    def _version(self, request: str) -> int:
        return self.requests[request].version

    def _AllocateNodes(self, session: int, step: Any) -> bool:
        found = self._fresh(step.request, step.version, session)
        nodes = [self._node(*each) for each in step.nodes]
        if found is None or any(each is None or each.id in self.node_locks for each in nodes):
            return False
        for each in nodes:
            assert each is not None
            assert each.record.allocated_to is None
            fields = {"allocated_to": found.id, "tenant_name": found.record.tenant_name}
            self._put_node(each, pool_node_after(each.record, PoolNodeEvent.ALLOCATE, self.now, **fields))
        return True

    def _LaunchNode(self, session: int, step: Any) -> bool:
        found = self.requests.get(step.request or "")
        assert step.request is None or self.request_locks.get(step.request) == session, "launched without the lock"
        pool = self.launchers[session].pool(step.provider, step.pool)
        assert pool is not None
        machine = next((each for each in pool.machines if each.name == step.machine), None)
        offered = pool.labels.get(step.label)
        record = new_pool_node(
            self.now,
            provider=step.provider,
            pool=step.pool,
            type=machine.labels if machine else (step.label,),
            allocated_to=step.request,
            tenant_name=found.record.tenant_name if found else None,
            launcher=f"host{session}",
            slot=step.slot,
            username=machine.username if machine else None,
            connection_port=machine.port if machine else None,
            connection_type=machine.connection_type if machine else None,
            shell_type=machine.shell_type if machine else None,
            python_path=machine.python_path if machine else None,
            resources=amounts(offered.resources if offered else {}),
            driver_data={"key": "", "attempt": step.attempt, "machine": step.machine},
        )
        id = f"{next(self._ids):010}"
        self.nodes[id] = PoolNodeView(id=id, record=record, version=next(self._versions), created=self.now)
        if step.provider in self.rooms and not self._taken(id, step.provider):
            self.node_locks[id] = session
            self.at(REFUSAL_SECONDS, lambda: self._end_refused(session, id, step))
            return True
        self._begin_launch(session, id)
        return True

    def _taken(self, id: str, provider: str) -> bool:
        """Whether the provider takes the order for a machine."""
        if counted(self.nodes.values()).get(provider, 0) >= self.rooms[provider]:
            return False
        found = self.nodes[id]
        self.nodes[id] = replace(found, record=replace(found.record, external_id=f"machine-{id}"))
        return True

    def _end_refused(self, session: int, id: str, step: Any) -> None:
        if self.node_locks.get(id) != session or id not in self.nodes:
            return
        beside = counted(self.nodes.values()).get(step.provider, 0)
        facts: Any = {"key": "", "party": "quota", "refusals": step.refusals + 1, "beside": beside}
        building = pool_node_in(self.nodes[id].record, PoolNodeState.BUILDING, self.now)
        self._put_node(self.nodes[id], pool_node_in(building, PoolNodeState.ABORTED, self.now, driver_data=facts))
        del self.node_locks[id]

    def _begin_launch(self, session: int, id: str) -> None:
        self.node_locks[id] = session
        self.machines.add(id)
        self.at(LAUNCH_SECONDS, lambda: self._end_launch(session, id))

    def _end_launch(self, session: int, id: str) -> None:
        if self.node_locks.get(id) != session or id not in self.nodes:
            return
        found = self.nodes[id]
        end = self.launch(found)
        building = pool_node_in(found.record, PoolNodeState.BUILDING, self.now)
        if end != "ready":
            self.machines.discard(id)
        self._put_node(found, pool_node_in(building, PoolNodeState(end), self.now))
        if end == "aborted":
            facts = {**dict(found.record.driver_data or {}), "party": "quota"}  # type: ignore[call-overload]
            self.nodes[id] = replace(self.nodes[id], record=replace(self.nodes[id].record, driver_data=facts))
        del self.node_locks[id]

    def _FulfilRequest(self, session: int, step: Any) -> bool:
        found = self._fresh(step.request, step.version, session)
        nodes = [self._node(*each) for each in step.nodes]
        if found is None or any(each is None or each.record.state is not PoolNodeState.READY for each in nodes):
            return False
        given = [each for each in nodes if each is not None]
        assert len({each.id for each in given}) == len(found.record.node_types)
        for label, each in zip(found.record.node_types, given, strict=True):
            assert each.record.allocated_to == found.id
            assert label in each.labels
        assert len({(each.record.provider, each.record.pool) for each in given}) <= 1, "one pool serves a request"
        self._put_request(found, RequestEvent.FULFIL, nodes=tuple(each.id for each in given))
        self.request_locks.pop(found.id)
        self.started[found.id] = self.now
        self.use(found.id)
        return True

    def use(self, id: str) -> None:
        """The requester locks the nodes, deletes the request, and returns the nodes after their life."""
        found = self.requests.pop(id)
        for each in found.record.nodes:
            node = self.nodes[each]
            self.node_locks[each] = USER
            self._put_node(node, pool_node_after(node.record, PoolNodeEvent.USE, self.now))
            self.at(max(self.lives[label] for label in node.labels), lambda each=each: self.give_back(each))  # type: ignore[misc]

    def give_back(self, id: str) -> None:
        self.node_locks.pop(id)
        self._put_node(self.nodes[id], pool_node_after(self.nodes[id].record, PoolNodeEvent.RETURN, self.now))

    def _DeclineRequest(self, session: int, step: Any) -> bool:
        found = self._fresh(step.request, step.version, session)
        if found is None:
            return False
        self.request_locks.pop(found.id, None)
        if step.failed:
            self.failed[found.id] = step.reason
            self.requests.pop(found.id)
        else:
            declined = tuple(dict.fromkeys((*found.record.declined_by, *step.pools)))
            self._put_request(found, RequestEvent.RETURN, declined_by=declined)
        return True

    def _DeleteRequest(self, session: int, step: Any) -> bool:
        if self._fresh(step.request, step.version, session) is None:
            return False
        self.requests.pop(step.request)
        self.request_locks.pop(step.request, None)
        return True

    def _FreeNode(self, _session: int, step: Any) -> bool:
        found = self._node(step.node, step.version)
        if found is None or found.id in self.node_locks:
            return False
        fields: dict[str, Any] = {"allocated_to": None, "tenant_name": None}
        self._put_node(found, pool_node_after(found.record, PoolNodeEvent.FREE, self.now, **fields))
        return True

    def _DeleteNode(self, session: int, step: Any) -> bool:
        found = self._node(step.node, step.version)
        if found is None or found.id in self.node_locks:
            return False
        self._put_node(found, pool_node_after(found.record, PoolNodeEvent.DELETE, self.now))
        self._begin_deletion(session, found.id)
        return True

    def _begin_deletion(self, session: int, id: str) -> None:
        self.node_locks[id] = session
        self.at(DELETE_SECONDS, lambda: self._end_deletion(session, id))

    def _end_deletion(self, session: int, id: str) -> None:
        if self.node_locks.get(id) == session:
            self.nodes.pop(id)
            self.machines.discard(id)
            del self.node_locks[id]

    def _AdoptNode(self, session: int, step: Any) -> bool:
        found = self._node(step.node, step.version)
        if found is None or found.id in self.node_locks:
            return False
        if found.record.state is PoolNodeState.DELETING:
            self._begin_deletion(session, found.id)
        else:
            self._begin_launch(session, found.id)
        return True

    def _FailNode(self, _session: int, _step: Any) -> bool:
        raise AssertionError("no launch is late here")

    # -- invariants --

    def check(self) -> None:
        """The machines that exist are within the limits of pools, providers and tenants."""
        used: dict[tuple[str, ...], dict[str, float]] = {}
        for each in self.nodes.values():
            record = each.record
            if each.id not in self.machines:
                continue
            places: list[tuple[str, ...]] = [
                (record.provider or "",),
                (record.provider or "", record.pool or ""),
            ]
            if record.tenant_name is not None:
                places.append(("tenant", record.tenant_name, ""))
            for place in places:
                mine = used.setdefault(place, {})
                for key, value in amounts(record.resources).items():
                    mine[key] = mine.get(key, 0.0) + value
        for configuration in self.launchers.values():
            for provider in configuration.providers.values():
                self._within(used.get((provider.name,), {}), provider.limits)
                for pool in provider.pools.values():
                    self._within(used.get((provider.name, pool.name), {}), pool.limits)
            for tenant, limits in configuration.tenant_limits.items():
                self._within(used.get(("tenant", tenant, ""), {}), limits)

    def _within(self, used: dict[str, float], limits: Any) -> None:
        for key, limit in limits.items():
            assert used.get(key, 0.0) <= limit, f"{key}: {used[key]} of {limit}\n{self.picture()}"

    def picture(self) -> str:
        """The world in words, with the newest steps."""
        lines = [f"now {self.now - 1_000_000:.1f}", *self.log[-40:]]
        for each in self.requests.values():
            lines.append(
                f"request {each.id} {each.record.state} {each.record.node_types} by {self.request_locks.get(each.id)}"
            )
        for node in self.nodes.values():
            facts, record = launch_facts(node.record), node.record
            attempt = facts.attempt if facts else "-"
            place = f"{record.provider}/{record.pool}"
            lines.append(
                f"node {node.id} {record.state} {place} {node.labels} for {record.allocated_to}"
                f" attempt {attempt} by {self.node_locks.get(node.id)}"
            )
        return "\n".join(lines)


def settled(world: PoolSimulation) -> bool:
    """Whether no request waits."""
    return not any(
        each.record.state in (RequestState.REQUESTED, RequestState.PENDING) for each in world.requests.values()
    )

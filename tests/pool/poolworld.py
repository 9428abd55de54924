"""Views for the tests of the pool's rules: a configuration, requests, nodes and launchers in a few words."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodepool_ocb.model.pool import NodeRequest, PoolComponent, PoolNode, PoolNodeState, RequestState
from nodepool_ocb.pool.configuration import (
    LaunchProvider,
    PoolConfiguration,
    PoolLabel,
    PoolLabelPolicy,
    ProviderPool,
    StaticMachine,
)
from nodepool_ocb.pool.deciding import PoolDecision, decide
from nodepool_ocb.pool.views import PoolLauncher, PoolMember, PoolNodeView, PoolView, RequestView

NOW: Final = 1_000_000.0
ME: Final = 1  # the session of the launcher that decides


def label(name: str, image: str | None = None, **resources: float) -> PoolLabel:
    return PoolLabel(name=name, diskimage=image, resources=resources)


def pool(name: str, *labels: PoolLabel | str, provider: str = "cloud", **fields: Any) -> ProviderPool:
    found = [label(each) if isinstance(each, str) else each for each in labels]
    return ProviderPool(name=name, provider=provider, labels={each.name: each for each in found}, **fields)


def machines(name: str, *each: StaticMachine, provider: str = "static", **fields: Any) -> ProviderPool:
    return ProviderPool(name=name, provider=provider, machines=each, **fields)


def configuration(*pools: ProviderPool, labels: Any = (), providers: Any = None, **fields: Any) -> PoolConfiguration:
    """``providers``: fields of providers, by name."""
    found: dict[str, LaunchProvider] = {}
    for each in pools:
        before = found.get(each.provider) or LaunchProvider(
            name=each.provider, driver="static" if each.machines else "fake", **(providers or {}).get(each.provider, {})
        )
        found[each.provider] = msgspec.structs.replace(before, pools={**before.pools, each.name: each})
    policies = {each.name: each for each in labels}
    names = {name for each in pools for name in each.labels} | {n for p in pools for m in p.machines for n in m.labels}
    for name in sorted(names - policies.keys()):
        policies[name] = PoolLabelPolicy(name=name)
    return PoolConfiguration(labels=policies, providers=found, **fields)


def member(each: ProviderPool, session: int = ME, native: bool = True, **fields: Any) -> PoolMember:
    labels = sorted(set(each.labels) | {name for machine in each.machines for name in machine.labels})
    record = PoolComponent(
        hostname=f"host{session}",
        kind="pool",
        id=f"{session}-{each.provider}-{each.name}",
        name=each.name,
        provider_name=each.provider,
        **{"state": "running", "supported_labels": tuple(labels), "priority": each.priority, **fields},
    )
    return PoolMember(
        path=f"/pool/{session}/{each.provider}/{each.name}", record=record, session=session, native=native
    )


def members(configuration: PoolConfiguration, *sessions: int) -> tuple[PoolMember, ...]:
    pools = [each for provider in configuration.providers.values() for each in provider.pools.values()]
    return tuple(member(each, session) for session in sessions or (ME,) for each in pools)


def launcher(configuration: PoolConfiguration, session: int = ME) -> PoolLauncher:
    keys = [(p.name, name) for p in configuration.providers.values() for name in p.pools]
    return PoolLauncher(
        id=f"host{session}", session=session, pools={key: f"{session}-{key[0]}-{key[1]}" for key in keys}
    )


def request(id: str, *types: str, **fields: Any) -> RequestView:
    """An id without a hyphen has priority 100. Fields of the view or of the record."""
    whole = id if "-" in id else f"100-{id.zfill(10)}"
    own = {key: fields.pop(key) for key in ("version", "created", "locked_by", "ours", "bytes") if key in fields}
    record = NodeRequest(**{"state": RequestState.REQUESTED, "state_time": NOW, "node_types": types, **fields})
    return RequestView(**{"id": whole, "record": record, "version": 1, "created": NOW, **own})


def held(id: str, *types: str, **fields: Any) -> RequestView:
    """A pending request with its lock held by the launcher that decides."""
    return request(id, *types, state=RequestState.PENDING, ours=True, locked_by="host1", **fields)


def node(id: str, *labels: str, place: ProviderPool | None = None, **fields: Any) -> PoolNodeView:
    """A ready node. Fields of the view or of the record."""
    own = {key: fields.pop(key) for key in ("version", "created", "locked", "ours") if key in fields}
    record = PoolNode(
        **{
            "state": PoolNodeState.READY,
            "state_time": NOW,
            "type": labels,
            "provider": place.provider if place else "cloud",
            "pool": place.name if place else "main",
            **fields,
        }
    )
    return PoolNodeView(**{"id": id.zfill(10), "record": record, "version": 1, "created": NOW, **own})


def view(configuration: PoolConfiguration, *each: RequestView | PoolNodeView, **fields: Any) -> PoolView:
    requests = {one.id: one for one in each if isinstance(one, RequestView)}
    nodes = {one.id: one for one in each if isinstance(one, PoolNodeView)}
    return PoolView(**{"requests": requests, "nodes": nodes, "members": members(configuration), **fields})


def decided(
    configuration: PoolConfiguration, *each: RequestView | PoolNodeView, at: float = NOW, **fields: Any
) -> PoolDecision:
    return decide(view(configuration, *each, **fields), configuration, launcher(configuration), at)


def steps(
    configuration: PoolConfiguration, *each: RequestView | PoolNodeView, at: float = NOW, **fields: Any
) -> list[str]:
    """The steps as short texts: the class and its main fields."""
    return [text(step) for step in decided(configuration, *each, at=at, **fields).steps]


def text(step: Any) -> str:
    """One step in words.

    A sequence loses its zeros: ``claim 7``, ``launch cloud/main small for 7``, ``allocate 1,2 to 7``.
    """
    kind = type(step).__name__
    words = {
        "ClaimRequest": lambda: f"claim {_id(step.request)}",
        "AllocateNodes": lambda: f"allocate {_ids(step.nodes)} to {_id(step.request)}",
        "LaunchNode": lambda: _launch(step),
        "FulfilRequest": lambda: f"fulfil {_id(step.request)} with {_ids(step.nodes)}",
        "DeclineRequest": lambda: _decline(step),
        "FreeNode": lambda: f"free {_id(step.node)}",
        "DeleteNode": lambda: f"delete {_id(step.node)}",
        "FailNode": lambda: f"fail {_id(step.node)}" + (" keep" if step.keep else ""),
        "AdoptNode": lambda: f"adopt {_id(step.node)}",
        "DeleteRequest": lambda: f"delete request {_id(step.request)}",
    }
    return words[kind]()


def _id(id: str) -> str:
    return id.rpartition("-")[2].lstrip("0")


def _ids(nodes: tuple[tuple[str, int], ...]) -> str:
    return ",".join(_id(id) for id, _ in nodes)


def _launch(step: Any) -> str:
    found = f"launch {step.provider}/{step.pool} {step.label}"
    found += f" for {_id(step.request)}" if step.request else ""
    found += f" attempt {step.attempt}" if step.attempt > 1 else ""
    return found + (f" on {step.machine}/{step.slot}" if step.machine else "")


def _decline(step: Any) -> str:
    if step.failed:
        return f"fail request {_id(step.request)}"
    return f"decline {_id(step.request)} by {','.join(step.pools)}" if step.pools else f"release {_id(step.request)}"

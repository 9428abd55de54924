"""The keys of a new node: those that Nodepool's launcher sets before the launch, and the facts of the launch. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from nodepool_ocb.model.pool import LaunchFacts, PoolNode, launch_facts
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, StaticMachine
from nodepool_ocb.pool.instructions import LaunchNode
from nodepool_ocb.pool.views import RequestView
from nodepool_ocb.providers.machines import Machine

PYTHON: Final = (
    "auto"  # Nodepool's python-path of an image that says nothing else; that of a diskimage is in its upload
)
SSH_PORT: Final = 22
CHECKED: Final = frozenset({"ssh", "network_cli"})  # the connection types with host keys
STATIC_LAUNCHER: Final = "static driver"  # the launcher of a static machine, as Nodepool writes it


def new_fields(
    step: LaunchNode,
    provider: LaunchProvider,
    pool: ProviderPool,
    label: PoolLabel,
    *,
    launcher: str,
    request: RequestView | None,
) -> dict[str, Any]:
    """The keys of the record; ``launcher`` is the id of the launcher."""
    machine = next((each for each in pool.machines if _named(each, step)), None)
    name = None if machine is None else machine.name
    facts = LaunchFacts(key="", attempt=step.attempt, not_before=step.not_before, machine=name, refusals=step.refusals)
    fields: dict[str, Any] = {
        "provider": provider.name,
        "pool": pool.name,
        "cloud": provider.cloud,
        "region": provider.region,
        "launcher": launcher if machine is None else STATIC_LAUNCHER,
        "type": (label.name,) if machine is None else machine.labels,
        "attributes": pool.node_attributes,
        "slot": step.slot,
        "driver_data": msgspec.to_builtins(facts),
        **(_of_label(label) if machine is None else _of_machine(machine)),
    }
    if request is not None:
        record = request.record
        fields |= {"allocated_to": request.id, "tenant_name": record.tenant_name, "requestor": record.requestor}
    return fields


def address_fields(record: PoolNode, machine: Machine, label: PoolLabel) -> dict[str, Any]:
    """The keys of a machine's address, and of its host keys if they are known or not wanted."""
    port, keys = machine.port or record.connection_port or SSH_PORT, machine.host_keys
    if keys is None and not (label.host_key_checking and record.connection_type in CHECKED):
        keys = ()
    return {
        "interface_ip": machine.address,
        "username": record.username or machine.user,
        "connection_port": port,
        "ssh_port": port,
        "public_ipv4": machine.public_ipv4,
        "private_ipv4": machine.private_ipv4,
        "public_ipv6": machine.public_ipv6,
        "az": machine.az or record.az,
        "region": machine.region or record.region,
        "cloud": machine.cloud or record.cloud,
        "host_id": machine.host_id,
        "node_properties": machine.properties or record.node_properties,
        "resources": {**(record.resources or {}), **machine.resources} or None,  # a cloud may not tell of volumes
        **({} if keys is None else {"host_keys": keys}),
    }


def lent_fields(record: PoolNode, machine: Machine, label: PoolLabel) -> dict[str, Any]:
    """All keys of a machine that is lent, and has its address and its host keys."""
    facts = launch_facts(record)
    name = (facts.machine if facts is not None else None) or machine.name
    return {"hostname": name, "external_id": machine.external_id, **address_fields(record, machine, label)}


def _named(machine: StaticMachine, step: LaunchNode) -> bool:
    return (machine.name, machine.username, machine.port) == (step.machine, step.username, step.port)


def _of_label(label: PoolLabel) -> dict[str, Any]:
    return {
        "username": label.username,
        "python_path": label.python_path or (PYTHON if label.diskimage is None else None),
        "shell_type": label.shell_type,
        "connection_type": label.connection_type,
        "connection_port": label.connection_port,
        "ssh_port": label.connection_port,
        "resources": dict(label.resources) or None,
        "image_id": label.cloud_image,
    }


def _of_machine(machine: StaticMachine) -> dict[str, Any]:
    return {
        "username": machine.username,
        "python_path": machine.python_path,
        "shell_type": machine.shell_type,
        "connection_type": machine.connection_type,
        "connection_port": machine.port,
        "ssh_port": machine.port,
    }

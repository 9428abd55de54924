"""The request that creates a container, from an order; and the options of providers, pools and labels of driver docker. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import PoolLabel
from nodepool_ocb.providers.containers import api
from nodepool_ocb.providers.machines import MachineOrder, MachineStamp

KEYS: Final[Json] = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[^\n\r]+$", "description": "a line of authorized_keys"},
}
PROVIDER: Final[Json] = {
    "type": "object",
    "properties": {"url": api.URL, "repository": api.REPOSITORY},
    "additionalProperties": False,
}
POOL: Final[Json] = {
    "type": "object",
    "properties": {
        "network": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
            "description": "the name of a network",
        },
        "publish": {"type": "string", "pattern": "^[0-9a-fA-F.:]+$", "description": "an address of the engine's host"},
        "authorized-keys": KEYS,
    },
    "additionalProperties": False,
}
LABEL: Final[Json] = {
    "type": "object",
    "properties": {
        "cpu": {"type": "number", "exclusiveMinimum": 0},
        "memory": {"type": "integer", "minimum": 6},  # MiB; the least that an engine takes
        "pids": {"type": "integer", "minimum": 10},
        "authorized-keys": KEYS,
        "env": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                        "description": "a name of a variable",
                    },
                    "value": {
                        "type": "string",
                        "pattern": '^[^"\\\\\\x00-\\x1f\\x7f]*$',
                        "description": "text without quotes, backslashes and control characters",
                    },
                },
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
        "image-name": {"type": "string", "minLength": 1},
        "image-id": {"type": "string", "minLength": 1},
    },
    "additionalProperties": False,
}
BRIDGE: Final = "bridge"  # the network of a pool that names none
HOST: Final = "host"  # the network of the engine's host
FIRST_PORT: Final = 20000  # of sshd in the host's network
PORTS: Final = 12000  # of them, below those that the kernel gives away
PIDS: Final = 4096
USERNAME: Final = "zuul"  # as in Nodepool
NAME_CHARACTERS: Final = 60


def create_request(image: str, order: MachineOrder) -> Json:
    """The body of the request to create the container."""
    options, pool = order.label.options, order.pool.options
    network = pool.get("network", BRIDGE)
    port = _host_port(order.stamp) if network == HOST else order.label.connection_port
    variables = {each["name"]: each["value"] for each in options.get("env", ())}
    published = {f"{port}/tcp": [{"HostIp": pool["publish"], "HostPort": ""}]} if "publish" in pool else {}
    memory = int(options.get("memory", 0)) << 20
    keys = "\n".join(_keys(order))
    return {
        "Image": image,
        "Hostname": _hostname(order.name) if network != HOST else "",
        "Entrypoint": ["/bin/sh", "-c", _script(), "sh"],
        "Cmd": [order.username or order.label.username or USERNAME, str(port), keys, *_set_env(variables)],
        "User": "0",
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": {**order.properties, **order.stamp.labels},
        "ExposedPorts": {f"{port}/tcp": {}},
        "HostConfig": {
            "NetworkMode": network,
            "PortBindings": published,
            "Memory": memory,
            "MemorySwap": memory,  # none besides
            "NanoCpus": int(float(options.get("cpu", 0)) * 1e9),
            "PidsLimit": options.get("pids", PIDS),
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
        },
    }


def _keys(order: MachineOrder) -> Iterable[str]:
    """The keys of the order and of the file, each once."""
    pool, label = (each.options.get("authorized-keys", ()) for each in (order.pool, order.label))
    return dict.fromkeys([*order.public_keys, *pool, *label])


def cloud_image(label: PoolLabel) -> str | None:
    """An image of the engine that no builder uploaded."""
    found = label.options.get("image-id") or label.options.get("image-name") or label.cloud_image
    return str(found) if found else None


def _script() -> str:
    return (files("nodepool_ocb.providers.containers") / "container.sh").read_text(encoding="utf-8")


def container_name(order: MachineOrder) -> str:
    """The name of the container: the key keeps two attempts from having the same."""
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", order.name).lstrip("_.-") or "node"
    return f"{readable[:NAME_CHARACTERS]}-{order.stamp.key}"


def _hostname(name: str) -> str:
    """The host name in the container.

    >>> _hostname("small-west-0000000007.example.com"), _hostname("Gross_und/breit")
    ('small-west-0000000007', 'Gross-und-breit')
    """
    return re.sub(r"[^A-Za-z0-9-]", "-", name.partition(".")[0])[:63].strip("-") or "node"


def _host_port(stamp: MachineStamp) -> int:
    """The port of sshd in the host's network, by the stamp. If it is taken, the launch fails, and the next has another stamp."""
    return FIRST_PORT + int.from_bytes(hashlib.sha256(stamp.key.encode()).digest()[:4], "big") % PORTS


def _set_env(variables: Mapping[str, str]) -> list[str]:
    """The options of sshd that give the variables to logins. Only its first SetEnv counts."""
    words = " ".join(f'"{name}={value}"' for name, value in variables.items())
    return ["-o", f"SetEnv={words}"] if words else []

"""Driver docker: a machine is a container of an uploaded image, with sshd as its first process.

The stamp is in the container's labels, so the engine makes both together or none. A container that was made and not started is
started by the next ``find`` or ``look``. Only a container with the whole stamp is removed. A person or a daemon with access to an
engine is root on its host: docs/providers.md.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from nodepool_ocb.config import SshSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model.records import Json
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, Resources
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers.containers.api import ANSWER_SECONDS, connected, errors, require, status, words
from nodepool_ocb.providers.containers.body import (
    HOST,
    LABEL,
    POOL,
    PROVIDER,
    cloud_image,
    container_name,
    create_request,
)
from nodepool_ocb.providers.launchoptions import option_faults
from nodepool_ocb.providers.machines import (
    MACHINE_STAMP,
    LaunchParty,
    Machine,
    MachineOrder,
    MachineRefused,
    MachineStamp,
)
from nodepool_ocb.providers.ownfaults import of_this_host

if TYPE_CHECKING:
    from docker import DockerClient

LAST_WORDS: Final = 10  # lines of a container that ended
STATES: Final = {
    "created": "building",
    "running": "running",
    "restarting": "building",
    "paused": "stopped",
    "removing": "deleting",
    "exited": "failed",
    "dead": "failed",
}


class DockerContainers:
    """Each call opens a connection of its own; the engine is near."""

    def __init__(self, provider: LaunchProvider, ssh: SshSettings) -> None:
        require(provider.name)
        self._provider = provider
        del ssh
        self._url: str | None = provider.options.get("url")

    @staticmethod
    def faults(provider: LaunchProvider) -> list[str]:
        found = list(option_faults(provider, PROVIDER, POOL, LABEL))
        for pool in provider.pools.values():
            if pool.options.get("network") == HOST and "publish" in pool.options:
                found.append(
                    f"pools[{pool.name}].publish: has no effect in the network of the host; remove one of the two"
                )
            for label in pool.labels.values():
                if not label.diskimage and cloud_image(label) is None:
                    found.append(
                        f"pools[{pool.name}].labels[{label.name}]: has no image; add `diskimage` or `cloud-image`"
                    )
        return found

    @staticmethod
    def resources(provider: LaunchProvider, label: PoolLabel) -> Resources:
        """The limits of the container, as far as the label has them."""
        del provider
        found = {"instances": 1.0}
        for key, resource in (("cpu", "cores"), ("memory", "ram")):
            if key in label.options:
                found[resource] = float(label.options[key])
        return found | dict(label.resources)

    def create(self, order: MachineOrder) -> Machine | MachineRefused:
        image = order.image or cloud_image(order.label)
        if image is None:
            return MachineRefused(
                f"label {order.label.name} has no image at provider {self._provider.name}", LaunchParty.REQUEST
            )
        request = create_request(image, order)
        try:
            with self._engine(order.timeout_seconds) as engine:
                api: Any = engine.api
                try:
                    made = api.create_container_from_config(request, name=container_name(order))
                except errors() as error:
                    return self._refused(error, LaunchParty.REQUEST if status(error) in (400, 404) else None)
                api.start(made["Id"])
                return self._seen(engine, made["Id"])
        except errors() as error:
            return self._refused(error)

    def find(self, stamp: MachineStamp) -> Machine | MachineRefused | None:
        try:
            with self._engine() as engine:
                wanted = [f"{key}={value}" for key, value in stamp.labels.items()]
                found = engine.api.containers(all=True, filters={"label": wanted})
                return self._seen(engine, found[0]["Id"]) if found else None
        except errors() as error:
            return self._gone_or_refused(error)

    def look(self, external_id: str) -> Machine | MachineRefused | None:
        try:
            with self._engine() as engine:
                return self._seen(engine, external_id)
        except errors() as error:
            return self._gone_or_refused(error)

    def delete(self, external_id: str, stamp: MachineStamp) -> MachineRefused | None:
        try:
            with self._engine() as engine:
                api: Any = engine.api
                found = MachineStamp.of(api.inspect_container(external_id)["Config"]["Labels"] or {})
                if found != stamp:
                    return MachineRefused(
                        f"container {external_id} of provider {self._provider.name} carries another stamp"
                    )
                api.remove_container(external_id, force=True, v=True)
        except errors() as error:
            return self._gone_or_refused(error)
        return None

    def list(self) -> Iterator[Machine]:
        try:
            with self._engine() as engine:
                found = engine.api.containers(all=True, filters={"label": f"{MACHINE_STAMP}cluster"})
        except errors() as error:
            raise Unavailable(self._refused(error).reason) from error
        for each in found:
            stamp = MachineStamp.of(each["Labels"] or {})
            if stamp is not None:
                yield Machine(
                    external_id=each["Id"],
                    name=next(iter(each["Names"] or []), each["Id"]).lstrip("/"),
                    stamp=stamp,
                    state=STATES.get(each["State"], "building"),
                    since=each.get("Created"),
                )

    def quota(self) -> ProviderQuota:
        """An engine has no quota."""
        return ProviderQuota(read=time.time())

    def close(self) -> None: ...

    def _engine(self, timeout_seconds: float = ANSWER_SECONDS) -> AbstractContextManager[DockerClient]:
        return connected(self._url, timeout_seconds)

    # -- containers --

    def _seen(self, engine: DockerClient, external_id: str) -> Machine:
        api: Any = engine.api
        found = api.inspect_container(external_id)
        if found["State"]["Status"] == "created" and MachineStamp.of(found["Config"]["Labels"] or {}) is not None:
            api.start(external_id)
            found = api.inspect_container(external_id)
        state = STATES.get(found["State"]["Status"], "building")
        address, port = self._address(found)
        four, six = _networks(found, "IPAddress"), _networks(found, "GlobalIPv6Address")
        return Machine(
            external_id=found["Id"],
            name=found["Name"].lstrip("/"),
            stamp=MachineStamp.of(found["Config"]["Labels"] or {}),
            state=state,
            fault=self._last_words(api, found) if state == "failed" else None,
            address=address if state == "running" else None,
            port=port,
            public_ipv4=address if state == "running" and address and ":" not in address else None,
            private_ipv4=four,
            public_ipv6=six,
            region=self._provider.region,
            cloud=self._provider.cloud,
            since=_seconds(found["Created"]),
        )

    def _address(self, found: Json) -> tuple[str | None, int]:
        """The address and port to connect to."""
        port = int(next(iter(found["Config"].get("ExposedPorts") or {"22/tcp": {}})).partition("/")[0])
        if found["HostConfig"]["NetworkMode"] == HOST:
            return (urlsplit(self._url).hostname if self._url else None) or "127.0.0.1", port
        if found["HostConfig"]["PortBindings"]:
            bound = (found["NetworkSettings"]["Ports"] or {}).get(f"{port}/tcp") or [{}]
            return bound[0].get("HostIp"), int(bound[0].get("HostPort") or port)
        return _networks(found, "IPAddress") or _networks(found, "GlobalIPv6Address"), port

    def _last_words(self, api: Any, found: Json) -> str:
        said = ""
        with contextlib.suppress(*errors()):
            said = api.logs(found["Id"], tail=LAST_WORDS).decode("utf-8", "replace")
        state = found["State"]
        killed = ", out of memory" if state.get("OOMKilled") else ""
        return " ".join(f"exit code {state['ExitCode']}{killed}: {state.get('Error', '')} {said}".split())

    # -- refusals --

    def _gone_or_refused(self, error: Exception) -> MachineRefused | None:
        return None if status(error) == 404 else self._refused(error)

    def _refused(self, error: Exception, party: LaunchParty | None = None) -> MachineRefused:
        if party is None and status(error) == 409:  # another call is removing it, or its name is taken
            party = LaunchParty.MACHINE
        if party is None:
            party = LaunchParty.HOST if of_this_host(error) else LaunchParty.PROVIDER
        return MachineRefused(f"provider {self._provider.name}: {words(error)}", party)


def _networks(found: Json, key: str) -> str | None:
    networks = found["NetworkSettings"]["Networks"] or {}
    return next((each[key] for each in networks.values() if each.get(key)), None)


def _seconds(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(text).timestamp()
    return None

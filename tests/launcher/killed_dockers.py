"""Launchers of containers that are killed before or after a request to their engine, and the containers that the engine had."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import docker
import pytest
from docker import APIClient

from nodepool_ocb.config import SshSettings
from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.containers.driver import DockerContainers
from nodepool_ocb.providers.keyscan import host_keys
from nodepool_ocb.testing.engine import Engine
from nodepool_ocb_launcher import launching
from tests.launcher.killed_launchers import CALLS, KilledLauncher

VERSION: Final = re.compile("^/v[0-9.]+")  # of the engine's interface, in a path

_asking = threading.local()  # ``launcher``: the one that a thread asks an engine for


class KilledDocker(KilledLauncher):
    """Its moments are its writes, its requests to the engine, and its key scans, not the calls of the driver."""

    last: str | None = None  # it dies when it meets the moment of this name

    def opened(self, provider: LaunchProvider, ssh: SshSettings) -> MachineCalls:
        return MachineCalls(provider, _Asking(self, DockerContainers(provider, ssh)))

    def meet(self, name: str) -> None:
        if not name.endswith(" of the provider"):
            super().meet(name)
        self.check()

    def ends(self, name: str) -> bool:
        return name == self.last or super().ends(name)


class _Asking:
    """A driver, on threads that know its launcher."""

    def __init__(self, launcher: KilledDocker, driver: DockerContainers) -> None:
        self._launcher, self._driver = launcher, driver

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)

        def asking(*arguments: Any) -> Any:
            if name in CALLS:  # not the search for leaks, which comes at any time
                _asking.launcher = self._launcher
            self._launcher.check()
            return found(*arguments)

        return asking if callable(found) else found


@contextmanager
def killing_at_requests(launchers: Callable[[], list[KilledDocker]]) -> Iterator[None]:
    """Each request to an engine and each key scan of these launchers is two moments."""

    def around(launcher: KilledDocker | None, name: str, act: Callable[[], Any]) -> Any:
        if launcher is None:
            return act()
        launcher.meet(f"before {name}")
        answer = act()
        launcher.meet(f"after {name}")
        return answer

    def request(client: APIClient, method: str, url: str, **more: Any) -> Any:
        name = f"{method} {VERSION.sub('', urlsplit(url).path)}"
        launcher = None if url.endswith("/version") else getattr(_asking, "launcher", None)
        return around(launcher, name, lambda: super(APIClient, client).request(method, url, **more))

    def scan(*arguments: Any) -> Any:
        living = [each for each in launchers() if not each.dead.is_set()]  # one at a time
        return around(living[0] if living else None, "the key scan", lambda: host_keys(*arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(APIClient, "request", request, raising=False)
        patch.setattr(launching, "host_keys", scan)
        yield


class Dock:
    """The containers of a cluster, as the engine tells of them. A context manager; the containers are removed in the end."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self.present: set[str] = set()
        self.made = self.most = 0  # in all, and at a time
        self._label: Final = {"label": f"nodepool_ocb_node_cluster={cluster}"}
        self._client = docker.DockerClient(base_url=engine.url)
        self._events: Any = self._client.events(decode=True, filters={**self._label, "type": "container"})
        self._thread = threading.Thread(target=self._watch, name="dock", daemon=True)

    def __enter__(self) -> Dock:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for container in self.containers():
            self._client.api.remove_container(container, force=True, v=True)
        self._events.close()
        self._thread.join(10.0)
        self._client.close()

    def containers(self) -> list[str]:
        """The ids of those that exist."""
        return [each["Id"] for each in self._client.api.containers(all=True, filters=self._label)]

    def _watch(self) -> None:
        for event in self._events:
            if event["Action"] == "create":
                self.present.add(event["Actor"]["ID"])
                self.made, self.most = self.made + 1, max(self.most, len(self.present))
            elif event["Action"] == "destroy":
                self.present.discard(event["Actor"]["ID"])

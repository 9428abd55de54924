"""The fake clouds of Nodepool's package, in the process of a test, for our builder in a process of its own.

It runs in Nodepool's Python. Tests replace the cloud of ``FakeAdapter``, or methods of the managers of ``config``; each call of
the builder goes through these objects.
"""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection, Listener
from typing import Any

from nodepool.config import loadConfig
from nodepool.provider_manager import get_provider


class CloudServer:
    """Serves the providers of a configuration file, which it reads again after each change."""

    def __init__(self, configfile: str, address: str) -> None:
        self._file, self._known = configfile, _state(configfile)
        self.config = loadConfig(configfile)
        self._managers = self.config.provider_managers
        self._lock = threading.Lock()
        self._open_new()
        self._listener = Listener(address, family="AF_UNIX")
        # names of kazoo's threads, for which the tests do not wait
        threading.Thread(target=self._accept, name="Thread-clouds", daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _open_new(self) -> None:
        """A provider that the file does not have any more keeps its manager."""
        for name, provider in self.config.providers.items():
            if name not in self._managers and provider.manage_images:
                self._managers[name] = get_provider(provider)

    def _manager(self, provider: str) -> Any:
        with self._lock:
            if (now := _state(self._file)) != self._known:
                self._known = now
                self.config.providers = loadConfig(self._file).providers
                self._open_new()
        return self._managers.get(provider)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return  # it was closed
            threading.Thread(target=self._serve, args=(connection,), name="Thread-cloud", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with connection:
            try:
                call, provider, arguments = connection.recv()
                answer = True, getattr(self, f"_{call}")(self._manager(provider), **arguments)
            except Exception as refused:
                answer = False, f"{type(refused).__name__}: {refused}"
            connection.send(answer)

    def _format(self, manager: None, cloud: str) -> str:
        """The format that the providers of a cloud take."""
        del manager
        found = [each for each in self.config.providers.values() if each.cloud_config.name == cloud]
        return str(found[0].image_type)

    def _upload(self, manager: Any, image: str, name: str, file: str, format: str, **more: Any) -> str:
        provider_image = self.config.providers[manager.provider.name].diskimages[image]
        return str(manager.uploadImage(provider_image, name, file, image_type=format, **more))

    def _delete(self, manager: Any, name: str, id: str) -> None:
        manager.deleteImage(name, id)

    def _list(self, manager: Any) -> dict[str, tuple[str, dict[str, str]]]:
        """The images that uploads made: external id → name and labels."""
        images = list(manager.adapter._client.list_images())
        return {each.id: (each.name, dict(each._kw)) for each in images if "_kw" in each}


def _state(file: str) -> tuple[int, int]:
    found = os.stat(file)
    return found.st_mtime_ns, found.st_ino

"""Machines of a static provider for all sides: some sshd of this computer, each with many slots."""

from __future__ import annotations

import getpass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from nodepool_ocb.testing.machines import Farm

LABEL: Final = "small"
PROVIDER: Final = "rack"


class Rack:
    """``machines`` with ``slots`` each; a context manager."""

    def __init__(self, machines: int, slots: int, folder: Path) -> None:
        self.machines, self.slots = machines, slots
        self._farm = Farm(machines, folder)

    def __enter__(self) -> Rack:
        self._farm.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._farm.close()

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.machines * self.slots

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each machine."""
        return [self._farm.address(number) for number in range(self.machines)]

    @property
    def ssh(self) -> dict[str, Any]:
        """The section ``ssh`` of a configuration that can log in."""
        return self._farm.settings()

    @property
    def document(self) -> dict[str, Any]:
        """The labels and the provider of a nodepool.yaml."""
        nodes = [
            {
                "name": host,
                "labels": [LABEL],
                "username": getpass.getuser(),
                "connection-port": port,
                "max-parallel-jobs": self.slots,
            }
            for host, port in self.addresses
        ]
        provider = {"name": PROVIDER, "driver": "static", "pools": [{"name": "main", "nodes": nodes}]}
        return {"labels": [{"name": LABEL}], "providers": [provider]}

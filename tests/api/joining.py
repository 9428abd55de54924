"""Machines that join a served cluster, and the rules that make their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.api.served import ServedApi

GIB: Final = 1024**3
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEx4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
FACTS: Final = {"memory": 64 * GIB, "cpus": 16, "serial": "S7", "disks": [{"name": "sda", "size": 500 * GIB}]}


class JoiningMachine:
    """A machine in the discovery environment; each has MACs of its own."""

    made = 0

    def __init__(self, api: ServedApi, token: str, **facts: Any) -> None:
        JoiningMachine.made += 1
        self.mac = f"52:54:00:00:{JoiningMachine.made >> 8:02x}:{JoiningMachine.made & 255:02x}"
        self.macs = [self.mac]
        self.host_keys = [KEY]
        self.facts = {**FACTS, **facts}
        self.secret = ""
        self.address = f"127.1.{JoiningMachine.made >> 8}.{JoiningMachine.made & 255}"
        self._api, self._token = api, token

    def register(self) -> httpx.Response:
        """The whole answer."""
        body = {"macs": self.macs, "inventory": self.facts, "host_keys": self.host_keys, "secret": self.secret}
        answer = self._ask("/v1/registrations", body)
        if answer.status_code == 200:
            self.secret = answer.json()["answer"]["secret"] or self.secret
        return answer

    def boots_again(self, boot_id: str) -> None:
        """Its memory is gone, and its secret with it."""
        self.secret, self.facts["boot_id"] = "", boot_id

    def poll(self) -> dict[str, Any]:
        answer = self._ask(f"/v1/registrations/{self.mac}/poll", {"secret": self.secret})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["answer"]
        return found

    def alive(self, fqdn: str, token: str) -> httpx.Response:
        """The report of the installed system."""
        return self._ask(f"/v1/nodes/{fqdn}/alive", {}, token, {"If-Match": "*"})

    def _ask(
        self, path: str, body: Any, token: str | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """From an address of its own: one machine is one node."""
        with httpx.Client(
            transport=httpx.HTTPTransport(local_address=self.address, verify=False), timeout=60.0
        ) as client:
            return client.post(
                f"{self._api.address}{path}",
                json=body,
                headers={"Authorization": f"Bearer {token or self._token}", **(headers or {})},
            )


def record(api: ServedApi, kind: type[Any], path: str) -> Any:
    with Session(api.settings) as session:
        znode = session.get(path)
        return None if znode is None else codec.decode(kind, znode)

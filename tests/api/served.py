"""A server of the API as a real process, on a cluster of its own, and its clients over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from msgspec.structs import replace

from nodepool_ocb.config import Settings, ZooKeeperSettings
from nodepool_ocb.model.records import Json
from nodepool_ocb.model.tokens import TokenRole
from nodepool_ocb.operations.operation import Call, Operation
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.clocks import skewed
from nodepool_ocb.testing.processes import API, DaemonProcess
from nodepool_ocb.testing.zookeeper.server import free_port


class Direct:
    """The command line's way: straight to ZooKeeper."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.settings = settings

    def note(self, text: str) -> None:
        """Notes are of no interest here."""

    def agree(self, text: str, details: object) -> bool:  # noqa: ARG002
        return False

    def perform(self, operation: Operation[Any], **call: Any) -> Any:
        """The answer of an operation."""
        made = Performer(Call(login="root", host="desk", **call), self, lambda: Settings(zookeeper=self.settings))
        return made.perform(operation).answer

    def token(self, name: str = "ann", role: str = "admin", **fields: Any) -> str:
        """The text of a new token."""
        text = self.perform(TokenCreate(name=name, role=TokenRole(role), **fields)).token
        assert isinstance(text, str)
        return text


class ServedApi:
    """One server; ``token`` is an admin's. Close it with ``close``."""

    def __init__(
        self,
        zookeeper: ZooKeeperSettings,
        folder: Path,
        *,
        ahead_seconds: float = 0.0,
        layout: str = "native",
        **api: Any,
    ) -> None:
        self.settings = zookeeper
        self.direct = Direct(zookeeper)
        with Session(zookeeper) as session:
            clusters.bootstrap(session)
        self.token = self.direct.token()
        port = free_port()
        section = {"listen": f"127.0.0.1:{port}", "drain_seconds": 2.0, **api}
        self.daemon = DaemonProcess(zookeeper, folder, {"api": section, "layout": layout}, launcher=API)
        self.address = f"{'https' if 'cert' in api else 'http'}://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.address, timeout=60.0, verify=False)
        self.daemon.environment |= skewed(ahead_seconds) if ahead_seconds else {}
        self.daemon.start()

    def close(self) -> None:
        self.client.close()
        self.daemon.close()

    def ask(
        self, method: str, path: str, body: Json = None, token: str | None = None, **headers: str
    ) -> httpx.Response:
        """One request; an underscore in the name of a header stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        authorization = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return self.client.request(method, path, content=data, headers={**authorization, **named})

    def call(
        self, name: str, fields: Mapping[str, Json] | None = None, token: str | None = None, **body: Json
    ) -> list[Json]:
        """The lines of an operation, which must not be refused before its first line."""
        answer = self.ask("POST", f"/v1/operations/{name}", {"fields": fields or {}, **body}, token)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


def below(settings: ZooKeeperSettings, name: str) -> ZooKeeperSettings:
    """A cluster of its own."""
    return replace(settings, hosts=f"{settings.hosts}{name}")


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    """Status, code and class of a refusal, which is a problem document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["detail"]
    return answer.status_code, found["code"], found["error"]

"""A cloud that has images alone: Keystone v3 and Glance v2 over HTTP, as far as openstacksdk uses them.

It listens on 127.0.0.1, and keeps data as sizes and checksums. It fails on request: it can answer a request with
another status, cut or hold it, or damage its data. ``images`` has the images of the cloud.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import socket
import threading
import uuid
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

PROJECT: Final = "0123456789abcdef0123456789abcdef"
PASSWORD: Final = "secret"
BLOCK_BYTES: Final = 1 << 16
PAGE: Final = 3  # images on a page of a list, so that there are many pages


class Fault(msgspec.Struct):
    """A fault to apply to a request."""

    method: str
    path: str  # a regular expression, found in the path
    times: int
    status: int | None = None  # the answer; the request's body is read first
    message: str = ""
    cut_after: int | None = None  # bytes of its body, then the connection breaks
    answer_lost: bool = False  # it is done, and the connection breaks before the answer
    damage: bool = False  # a bit of its data is stored wrong
    held: threading.Event | None = None  # set when it has come
    release: threading.Event | None = None  # nothing is read nor answered until it is set


class Glance:
    """A context manager. Faults are used up by the requests that they fit, oldest first.

    A class below it can have more services: their names and paths in ``services``, their answers from ``further``.
    """

    services: Mapping[str, str] = {"identity": "identity", "image": "image"}

    def further(self, method: str, steps: list[str], query: Mapping[str, str], body: bytes) -> CloudAnswer | None:
        """The answer of another service; None where it has none. Called with the lock."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.tokens: set[str] = set()
        self.lock = threading.RLock()
        self.answered: list[str] = []
        self._faults: list[Fault] = []
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="glance", daemon=True)

    def __enter__(self) -> Glance:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()
        self._thread.join()

    def write_clouds(self, path: Path, name: str = "test") -> None:
        """Write a clouds.yaml with this cloud in it, of region ``RegionOne``."""
        auth = {"auth_url": f"{self.url}/identity/v3", "username": "nodepool", "password": PASSWORD}
        auth |= {"project_name": "nodepool", "user_domain_name": "Default", "project_domain_name": "Default"}
        path.write_text(json.dumps({"clouds": {name: {"auth": auth, "region_name": "RegionOne"}}}))

    # -- faults --

    def answer(self, method: str, path: str, status: int, message: str = "", times: int = 1) -> None:
        """Answer the next such requests with a status."""
        self._add(Fault(method, path, times, status=status, message=message))

    def cut(self, method: str, path: str, after: int = 0) -> None:
        """Break the connection of the next such request after this number of bytes of its body."""
        self._add(Fault(method, path, 1, cut_after=after))

    def lose_answer(self, method: str, path: str) -> None:
        """Do the next such request, and break the connection instead of answering."""
        self._add(Fault(method, path, 1, answer_lost=True))

    def damage(self) -> None:
        """Store the next data wrong."""
        self._add(Fault("PUT", "/file$", 1, damage=True))

    def hold(self, method: str, path: str) -> threading.Event:
        """Let the next such request wait until heal(); the event is set when it has arrived."""
        fault = Fault(method, path, 1, held=threading.Event(), release=threading.Event())
        self._add(fault)
        assert fault.held is not None
        return fault.held

    def heal(self) -> None:
        """Release the held requests, and forget the faults that fitted no request."""
        with self.lock:
            for fault in [*self._faults, *self._server.holding]:
                if fault.release is not None:
                    fault.release.set()
            self._faults.clear()
            self._server.holding.clear()

    def count(self, method: str, path: str) -> int:
        """The number of such requests that were done."""
        return sum(each.startswith(f"{method} ") and bool(re.search(path, each)) for each in self.answered)

    def _add(self, fault: Fault) -> None:
        with self.lock:
            self._faults.append(fault)

    def fault(self, method: str, path: str) -> Fault | None:
        """The fault that a request meets."""
        with self.lock:
            for fault in self._faults:
                if fault.method == method and re.search(fault.path, path):
                    fault.times -= 1
                    if not fault.times:
                        self._faults.remove(fault)
                    if fault.release is not None:
                        self._server.holding.append(fault)
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, cloud: Glance) -> None:
        self.cloud = cloud
        self.holding: list[Fault] = []
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is nothing to tell."""

    def drop(self) -> None:
        """Break every connection."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class CloudAnswer(Exception):
    """A status, with its value and headers."""

    def __init__(self, status: int, value: Any = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.value, self.headers = status, value, headers or {}


class _Cut(Exception):
    """The connection is to break."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *arguments: Any) -> None: ...

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_GET

    @property
    def cloud(self) -> Glance:
        return self.server.cloud

    def _serve(self) -> None:
        self._left = int(self.headers.get("Content-Length", 0))
        self._fault = fault = self.cloud.fault(self.command, urlsplit(self.path).path)
        try:
            if fault is not None:
                self._meet(fault)
            answer = self._done()
            self.cloud.answered.append(f"{self.command} {urlsplit(self.path).path}")
        except CloudAnswer as raised:
            answer = raised
        except _Cut:
            return self._break()
        for _ in self._body():
            pass  # a client that is still sending reads no answer
        if fault is not None and fault.answer_lost:
            return self._break()
        return self._send(answer)

    def _meet(self, fault: Fault) -> None:
        if fault.release is not None and fault.held is not None:
            fault.held.set()
            fault.release.wait(60.0)
        if fault.status is not None:
            message = fault.message or HTTPStatus(fault.status).phrase
            raise CloudAnswer(fault.status, {"error": {"code": fault.status, "message": message}})
        if fault.cut_after is not None and not self.path.endswith("/file"):
            raise _Cut

    def _done(self) -> CloudAnswer:
        steps = [step for step in urlsplit(self.path).path.split("/") if step]
        match self.command, steps:
            case "GET", ["identity" | "image" as service, *_] if len(steps) < 3 and steps[-1] != "images":
                return self._versions(service)
            case "POST", ["identity", "v3", "auth", "tokens"]:
                return self._token()
        if self.headers.get("X-Auth-Token") not in self.cloud.tokens and steps not in (
            ["compute", "v2.1"],
            ["network"],
        ):
            return CloudAnswer(
                401, {"error": {"code": 401, "message": "The request you have made requires authentication."}}
            )
        with self.cloud.lock:
            match self.command, steps:
                case "GET", ["image", "v2", "images"]:
                    return self._list()
                case "POST", ["image", "v2", "images"]:
                    return self._create()
                case "GET", ["image", "v2", "images", name]:
                    return self._show(name)
                case "DELETE", ["image", "v2", "images", name]:
                    if self._image(name)["protected"]:
                        raise CloudAnswer(403, f"Image {name} is protected and cannot be deleted.")
                    del self.cloud.images[name]
                    return CloudAnswer(204)
        match self.command, steps:
            case "PUT", ["image", "v2", "images", name, "file" | "stage" as what]:
                return self._store(name, what)
            case "POST", ["image", "v2", "images", name, "import"]:
                self._image(name)["status"] = "importing"  # until a client has seen it
                return CloudAnswer(202)
            case _, [str() as other, *_] if other not in ("identity", "image"):
                query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
                body = b"".join(self._body())
                with self.cloud.lock:
                    answer = self.cloud.further(self.command, steps, query, body)
                if answer is not None:
                    return answer
        return CloudAnswer(404, f"there is no {self.command} {self.path}")

    def _versions(self, service: str) -> CloudAnswer:
        link = [{"rel": "self", "href": f"{self.cloud.url}/{service}/{'v3' if service == 'identity' else 'v2'}/"}]
        if service == "identity":
            version = {"id": "v3.14", "status": "stable", "links": link, "media-types": []}
            return CloudAnswer(200, {"version": version} if "v3" in self.path else {"versions": {"values": [version]}})
        return CloudAnswer(200, {"versions": [{"id": "v2.15", "status": "CURRENT", "links": link}]})

    def _token(self) -> CloudAnswer:
        asked = json.loads(b"".join(self._body()))
        if asked["auth"]["identity"]["password"]["user"]["password"] != PASSWORD:
            return CloudAnswer(
                401, {"error": {"code": 401, "message": "The request you have made requires authentication."}}
            )
        token = secrets.token_hex(16)
        self.cloud.tokens.add(token)
        endpoints = {
            service: {"id": service, "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url}
            for service, url in ((each, f"{self.cloud.url}/{path}") for each, path in self.cloud.services.items())
        }
        catalog = [{"id": each, "type": each, "name": each, "endpoints": [end]} for each, end in endpoints.items()]
        domain = {"id": "default", "name": "Default"}
        said = {
            "methods": ["password"],
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "user": {"id": "1", "name": "nodepool", "domain": domain},
            "project": {"id": PROJECT, "name": "nodepool", "domain": domain},
            "roles": [{"id": "1", "name": "member"}],
            "catalog": catalog,
        }
        return CloudAnswer(201, {"token": said}, {"X-Subject-Token": token})

    def _list(self) -> CloudAnswer:
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        marker = query.pop("marker", None)
        limit = min(int(query.pop("limit", PAGE)), PAGE)
        found = [image for image in self.cloud.images.values() if query.items() <= image.items()]
        begin = 1 + next(index for index, image in enumerate(found) if image["id"] == marker) if marker else 0
        page = found[begin : begin + limit]
        said: dict[str, Any] = {"images": page, "schema": "/v2/schemas/images"}
        if begin + limit < len(found):
            said["next"] = f"/v2/images?{urlencode({**query, 'limit': limit, 'marker': page[-1]['id']})}"
        return CloudAnswer(200, said)

    def _create(self) -> CloudAnswer:
        name = str(uuid.uuid4())
        image = {
            "size": None,
            "checksum": None,
            "os_hash_algo": None,
            "os_hash_value": None,
            "protected": False,
            "visibility": "shared",
            "tags": [],
            "owner": PROJECT,
            "min_disk": 0,
            "min_ram": 0,
            **json.loads(b"".join(self._body())),
            "id": name,
            "status": "queued",
            "file": f"/v2/images/{name}/file",
        }
        self.cloud.images[name] = image
        return CloudAnswer(201, image, {"OpenStack-image-import-methods": "glance-direct"})

    def _show(self, name: str) -> CloudAnswer:
        image = self._image(name)
        said = dict(image)
        if image["status"] == "importing":
            image["status"] = "active"
        return CloudAnswer(200, said)

    def _image(self, name: str) -> dict[str, Any]:
        if name not in self.cloud.images:
            raise CloudAnswer(404, f"No image found with ID {name}")
        return self.cloud.images[name]

    def _store(self, name: str, what: str) -> CloudAnswer:
        """Take the data in; an image with incomplete data is queued again, as in Glance."""
        image = self._image(name)
        image["status"] = "saving" if what == "file" else "uploading"
        md5, sha512, size = hashlib.md5(usedforsecurity=False), hashlib.sha512(), 0
        damaged = self._fault is not None and self._fault.damage
        try:
            for block in self._body():
                data = bytes([block[0] ^ 1]) + block[1:] if damaged and not size else block
                md5.update(data)
                sha512.update(data)
                size += len(data)
        except _Cut:
            image["status"] = "queued"
            raise
        with self.cloud.lock:
            if name not in self.cloud.images:
                raise CloudAnswer(410, f"Image {name} could not be found after upload.")
            image |= {"size": size, "checksum": md5.hexdigest()}
            image |= {"os_hash_algo": "sha512", "os_hash_value": sha512.hexdigest()}
            image["status"] = "active" if what == "file" else "uploading"
        return CloudAnswer(204)

    def _body(self) -> Iterator[bytes]:
        """The rest of the request's body."""
        taken = 0
        while self._left:
            if self._fault is not None and self._fault.cut_after is not None and taken >= self._fault.cut_after:
                raise _Cut
            block = self.rfile.read(min(BLOCK_BYTES, self._left))
            if not block:
                raise _Cut
            self._left -= len(block)
            taken += len(block)
            yield block

    def _break(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, answer: CloudAnswer) -> None:
        data = b"" if answer.value is None else json.dumps(answer.value).encode()
        if isinstance(answer.value, str):
            data = json.dumps({"message": answer.value}).encode()
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

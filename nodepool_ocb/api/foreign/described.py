"""The paths of Fuel and Nodepool in OpenAPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nodepool_ocb.api.foreign import fuel, nodepool

#: The refusals of these paths; the text of each is that of the other paths.
FUEL_STATUSES: Final = (400, 401, 403, 404, 405, 409, 412, 413, 421, 424, 428, 503, 504)
_JSON: Final = "application/json"
_TASKS: Final = {"type": "array", "items": {"type": "object"}}
_PART: Final = ("start", "end", "start_task", "end_task", "include", "graph_type")


def described(texts: Mapping[int, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method, and the operation object; ``texts``: the meaning of each status."""
    for path in fuel.VERSIONS:
        yield (
            path,
            "get",
            _fuel(f"version-{path.count('/')}", "Whether a client must log in.", {"type": "object"}, texts),
        )
    yield fuel.KEYSTONE, "post", _login(texts)
    for number, root in enumerate(fuel.ROOTS):
        for noun, place in (("cluster", fuel.CLUSTER), ("release", fuel.RELEASE)):
            path = root + _shown(place)
            name = f"{noun}-tasks-{number}"
            yield path, "get", _list(f"{name}", f"The task list of a {noun}, in Fuel's JSON.", path, texts)
            yield path, "put", _store(f"{name}-put", f"Replace the task list of a {noun}.", path, texts)
        level = f"{root}{_shown(fuel.CLUSTER)}/{{level}}"
        yield level, "get", _list(f"cluster-tasks-level-{number}", "One layer of the list of a cluster.", level, texts)
    for path in nodepool.PAGES:
        yield path, "get", _page(path)
    yield nodepool.READY, "get", _ready()


def _shown(place: str) -> str:
    """A path as OpenAPI has it."""
    return place.replace("{of_", "{").replace(":str}", "}")


def _fuel(name: str, summary: str, schema: dict[str, Any], texts: Mapping[int, str]) -> dict[str, Any]:
    refusal = {"content": {_JSON: {"schema": {"type": "object", "required": ["message", "errors"]}}}}
    refusals = {str(status): {"description": texts[status], **refusal} for status in FUEL_STATUSES}
    return {
        "operationId": f"fuel-{name}",
        "summary": summary,
        "tags": ["fuel"],
        "parameters": [],
        "responses": {"200": {"description": "Performed.", "content": {_JSON: {"schema": schema}}}, **refusals},
    }


def _in_path(path: str) -> list[dict[str, Any]]:
    named = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for each in named
    ]


def _list(name: str, summary: str, path: str, texts: Mapping[int, str]) -> dict[str, Any]:
    found = _fuel(name, summary, _TASKS, texts)
    found["parameters"] = _in_path(path)
    found["parameters"] += [{"name": each, "in": "query", "schema": {"type": "string"}} for each in _PART]
    return found


def _store(name: str, summary: str, path: str, texts: Mapping[int, str]) -> dict[str, Any]:
    found = _fuel(name, summary, _TASKS, texts)
    found["parameters"] = _in_path(path)
    found["requestBody"] = {"required": True, "content": {_JSON: {"schema": _TASKS}}}
    return found


def _login(texts: Mapping[int, str]) -> dict[str, Any]:
    found = _fuel("login", "A login of Keystone v2.0, with a token as password.", {"type": "object"}, texts)
    password = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}
    auth = {"type": "object", "properties": {"passwordCredentials": password}, "required": ["passwordCredentials"]}
    body = {"type": "object", "properties": {"auth": auth}, "required": ["auth"]}
    found["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}
    return found


def _page(path: str) -> dict[str, Any]:
    query = ["fields", "node_id"] if path == "/node-list" else ["fields"]
    content = {"text/plain": {"schema": {"type": "string"}}, _JSON: {"schema": _TASKS}}
    return {
        "operationId": f"nodepool{path.replace('/', '-')}",
        "summary": f"Nodepool's page {path}, as text or JSON.",
        "tags": ["nodepool"],
        "parameters": [{"name": each, "in": "query", "schema": {"type": "string"}} for each in query],
        "responses": {"200": {"description": "Performed.", "content": content}, **_refusals()},
    }


def _ready() -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "operationId": "nodepool-ready",
        "summary": "Whether ZooKeeper answers the server; it needs no token.",
        "tags": ["nodepool"],
        "parameters": [],
        "responses": {"200": {"description": "It does.", "content": content}, **_refusals()},
    }


def _refusals() -> dict[str, Any]:
    statuses = (400, 401, 403, 404, 405, 409, 421, 422, 429, 503, 504)
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}

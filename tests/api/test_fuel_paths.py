"""Fuel's paths on a real server: its client's login, its JSON, and its filters."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.tasks.lists import TasksDownload
from tests.api.served import ServedApi

TASKS: Final[list[Json]] = [
    {"id": "deploy", "type": "stage"},
    {"id": "controller", "type": "group", "role": ["controller"], "required_for": ["deploy"]},
    {
        "id": "hiera",
        "type": "shell",
        "groups": ["controller"],
        "parameters": {"cmd": "true", "on": "yes", "at": "12:30"},
    },
    {"id": "netconfig", "type": "shell", "groups": ["/contr/"], "requires": ["hiera"], "parameters": {"cmd": "true"}},
    {"id": "ntp", "type": "shell", "groups": ["controller"], "requires": ["netconfig"], "parameters": {"cmd": "true"}},
    {"id": "logs", "type": "shell", "groups": ["controller"], "parameters": {"cmd": "true", "timeout": 30}},
]
ROLES: Final = [{**task, "parameters": {"strategy": {"type": "parallel", "amount": 2}}} if task["id"] == "controller" else task
                for task in TASKS if isinstance(task, dict)]  # fmt: skip


@pytest.fixture(scope="module")
def fuel(api: ServedApi) -> ServedApi:
    """The release and the cluster have the same list, which stays; the names of others begin with `new`."""
    for name in ("1", "new-1"):
        api.call("deployment/create", {"name": name})
    for path in ("/api/v1/releases/2/deployment_tasks", "/api/v1/clusters/1/deployment_tasks"):
        assert ask(api, "PUT", path, ROLES).status_code == 200
    return api


def ask(api: ServedApi, method: str, path: str, body: Any = None, token: str | None = None) -> httpx.Response:
    """A request as Fuel's client sends it."""
    headers = {"X-Auth-Token": api.token if token is None else token}
    return api.client.request(method, path, headers=headers, **({} if body is None else {"json": body}))


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()]


@pytest.mark.parametrize("root", ["", "/api", "/api/v1"])
@pytest.mark.parametrize("place", ["clusters/1", "releases/2"])
def test_a_list_that_was_put_without_a_version_is_given_back_as_it_was(fuel: ServedApi, root: str, place: str) -> None:
    answer = ask(fuel, "GET", f"{root}/{place}/deployment_tasks")
    assert answer.json() == ROLES
    assert answer.headers["content-type"] == "application/json"
    assert ask(fuel, "PUT", f"{root}/{place}/deployment_tasks/", ROLES).json() == ROLES


def test_a_list_that_was_put_is_the_list_of_the_command_line(fuel: ServedApi) -> None:
    assert ask(fuel, "PUT", "/clusters/new-1/deployment_tasks", ROLES).status_code == 200
    files = fuel.direct.perform(TasksDownload(deployment="new-1"))
    assert [*files] == ["tasks.yaml"]
    assert 'id: "netconfig"' in files["tasks.yaml"]
    entry = fuel.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]
    assert (entry["login"], entry["verb"]) == ("ann", "tasks upload")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("start=netconfig", ["netconfig", "ntp"]),
        ("end=netconfig", ["hiera", "netconfig"]),
        ("start_task=hiera&end_task=netconfig", ["hiera", "netconfig"]),
        ("end=deploy", ["hiera", "netconfig", "ntp", "logs"]),
        ("end=deploy&include=controller&include=deploy", ["deploy", "controller", "hiera", "netconfig", "ntp", "logs"]),
        ("start=ntp&end=ntp", ["ntp"]),
        ("graph_type=default&end=hiera", ["hiera"]),
    ],
)
def test_start_and_end_give_the_tasks_between_them_without_groups_and_stages(
    fuel: ServedApi, query: str, wanted: list[str]
) -> None:
    assert ids(ask(fuel, "GET", f"/clusters/1/deployment_tasks?{query}")) == wanted


def test_a_cluster_shows_its_release_below_its_own_entries(fuel: ServedApi) -> None:
    fuel.call("deployment/create", {"name": "new-2"})
    assert fuel.ask("PUT", "/v1/tasks", {"deployment": "new-2", "base": "2"}).status_code == 200
    own = {**ROLES[-1], "parameters": {"cmd": "false"}}
    assert ask(fuel, "GET", "/clusters/new-2/deployment_tasks").json() == ROLES
    assert ask(fuel, "GET", "/clusters/new-2/deployment_tasks/own").json() == []
    assert ask(fuel, "PUT", "/clusters/new-2/deployment_tasks", [own]).json() == [own]
    assert ask(fuel, "GET", "/clusters/new-2/deployment_tasks").json() == [*ROLES[:-1], own]
    levels = {level: f"/clusters/new-2/deployment_tasks/{level}/" for level in ("own", "release", "plugins")}
    found = {level: ask(fuel, "GET", path).json() for level, path in levels.items()}
    assert found == {"own": [own], "release": ROLES, "plugins": []}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/clusters/9/deployment_tasks", None, 404),
        ("GET", "/releases/9/deployment_tasks", None, 404),
        ("GET", "/clusters/1/deployment_tasks/other", None, 404),
        ("GET", "/clusters/1/deployment_tasks?graph_type=custom", None, 404),
        ("GET", "/clusters/1/deployment_tasks?start=nothing", None, 400),
        ("PUT", "/clusters/9/deployment_tasks", [], 404),
        ("PUT", "/clusters/new-1/deployment_tasks", {"id": "a"}, 400),
        ("PUT", "/clusters/new-1/deployment_tasks", ["a"], 400),
        ("PUT", "/clusters/new-1/deployment_tasks", [{"id": "a", "type": "nothing"}], 400),
        ("PUT", "/clusters/new-1/deployment_tasks", [{"id": "a", "type": "stage", "requires": ["a"]}], 400),
        ("PUT", "/releases/new-3/deployment_tasks", [{"id": "a", "deep": [[[[]]]] * 1}] * 10_001, 400),
    ],
)
def test_a_refusal_has_the_message_that_fuels_client_prints(
    fuel: ServedApi, method: str, path: str, body: Any, status: int
) -> None:
    answer = ask(fuel, method, path, body)
    assert answer.status_code == status, answer.text
    assert answer.json()["message"]
    assert answer.json()["errors"] == []


def test_a_viewer_reads_lists_and_writes_none(fuel: ServedApi) -> None:
    token = fuel.direct.token(role="viewer")
    assert ids(ask(fuel, "GET", "/releases/2/deployment_tasks", token=token))
    refused = ask(fuel, "PUT", "/releases/2/deployment_tasks", [], token)
    assert refused.status_code == 403
    assert "needs role operator" in refused.json()["message"]
    assert ids(ask(fuel, "GET", "/releases/2/deployment_tasks"))
    machine = fuel.direct.token(role="join")
    assert ask(fuel, "GET", "/releases/2/deployment_tasks", token=machine).status_code == 403


def test_the_header_of_fuels_client_opens_no_other_path(fuel: ServedApi) -> None:
    assert ask(fuel, "GET", "/v1/nodes").status_code == 401
    assert ask(fuel, "GET", "/clusters/1/deployment_tasks", token="secret").status_code == 401
    assert fuel.client.get("/clusters/1/deployment_tasks").status_code == 401


def test_a_login_of_fuels_client_takes_a_token_as_password(fuel: ServedApi) -> None:
    assert fuel.client.get("/api/v1/version").json()["auth_required"] is True
    login = {"auth": {"tenantName": "admin", "passwordCredentials": {"username": "ann", "password": fuel.token}}}
    access = fuel.client.post("/keystone/v2.0/tokens", json=login).json()["access"]
    assert access["token"]["id"] == fuel.token
    assert access["user"]["name"] == "ann"
    again = {"auth": {"tenantName": "admin", "token": {"id": fuel.token}}}
    assert fuel.client.post("/keystone/v2.0/tokens", json=again).json()["access"]["token"]["id"] == fuel.token
    login["auth"]["passwordCredentials"] = {"username": "ann", "password": "admin"}
    refused = fuel.client.post("/keystone/v2.0/tokens", json=login)
    assert refused.status_code == 401
    assert "token create" in refused.json()["message"]
    assert fuel.client.post("/keystone/v2.0/tokens", content=b"[" * 100_000).status_code == 400

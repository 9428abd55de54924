"""Nodes with noderoles of several deployments: a token with limits sees and moves those inside them alone."""

from __future__ import annotations

from itertools import count
from typing import Any, Final, NamedTuple

import httpx
import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue import files
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Claim, Create, Json, NodeRole, Set, State
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.api.served import ServedApi, problem

BARCLAMP: Final = """
barclamp: {name: shared, version: 1}
roles:
  - {name: mine, jig: noop}
  - {name: theirs, jig: noop}
  - {name: above, jig: noop, requires: [mine]}
"""
LEFT: Final = "1 noderole outside the limits of this token stays as it is"
NUMBERS: Final = count()


@pytest.fixture(scope="module", autouse=True)
def roles(api: ServedApi, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("roles") / "shared.yml"
    file.write_text(BARCLAMP)
    api.direct.perform(BarclampImport(files=files.read([file])))


class SharedNode(NamedTuple):
    """A node of a deployment of its own; ``token`` is limited to that. ``theirs`` is bound in deployment system."""

    api: ServedApi
    name: str
    deployment: str
    token: str

    @property
    def mine(self) -> str:
        return f"mine@{self.name}"

    @property
    def theirs(self) -> str:
        return f"theirs@{self.name}"

    def ask(self, method: str, path: str, body: Json = None, token: str | None = None) -> httpx.Response:
        """A request with the limited token."""
        return self.api.ask(method, path, body, token or self.token, If_Match="*")

    def states(self) -> dict[str, str]:
        """State by role."""
        with Session(self.api.settings) as session:
            view = load_world(session).nodes.get(self.name)
            return {} if view is None else {role: str(each.record.state) for role, each in view.noderoles.items()}

    def becomes(self, role: str, state: State) -> None:
        """As an annealer would write it."""
        with Session(self.api.settings) as session:
            vertex = load_world(session).vertex(f"{role}@{self.name}")
            assert vertex is not None
            record: NodeRole = replace(vertex.record, state=state)
            session.commit([Set(paths.noderole(role, self.name), record, vertex.version)])


@pytest.fixture
def shared(api: ServedApi) -> SharedNode:
    number = next(NUMBERS)
    deployment, name = f"own{number}", f"shared{number}.example.com"
    api.call("deployment/create", {"name": deployment})
    api.call("node/create", {"name": name, "node": {"deployment": deployment}})
    api.call("node/bind", {"nodes": [name], "roles": ["mine"]})
    api.call("node/bind", {"nodes": [name], "roles": ["theirs"], "deployment": "system"})
    return SharedNode(api, name, deployment, api.direct.token(role="operator", deployments=(deployment,)))


def saved(node: SharedNode) -> httpx.Response:
    planned = node.api.call("node/commit", {"nodes": [node.name]}, node.token, dry_run=True, save=True)
    plan = next(each["plan"] for each in planned if isinstance(each, dict) and "plan" in each)
    return node.ask("POST", "/v1/operations/node/commit", {"plan": plan})


COMMITS: Final[dict[str, Any]] = {
    "one": lambda node: node.ask("POST", f"/v1/nodes/{node.name}/commit", {}),
    "selector": lambda node: node.ask("POST", "/v1/nodes/commit", {"selector": f"name:{node.name}"}),
    "operation": lambda node: node.ask("POST", "/v1/operations/node/commit", {"fields": {"nodes": [node.name]}}),
    "saved plan": saved,
}


@pytest.mark.parametrize("way", COMMITS)
def test_a_commit_of_a_node_leaves_noderoles_outside_the_limits_alone_and_counts_them(
    shared: SharedNode, way: str
) -> None:
    answer = COMMITS[way](shared)
    assert answer.status_code in (200, 202), answer.text
    assert shared.states() == {"mine": "TODO", "theirs": "PROPOSED"}
    assert LEFT in answer.text
    assert "theirs" not in answer.text


def test_a_plan_that_commits_others_is_refused_with_a_limited_token(shared: SharedNode) -> None:
    planned = shared.api.call("node/commit", {"nodes": [shared.name]}, dry_run=True, save=True)
    plan = next(each["plan"] for each in planned if isinstance(each, dict) and "plan" in each)
    answer = shared.ask("POST", "/v1/operations/node/commit", {"plan": plan})
    assert (problem(answer)[0], "theirs" in answer.text) == (412, False)
    assert shared.states() == {"mine": "PROPOSED", "theirs": "PROPOSED"}


def test_a_node_is_shown_without_the_noderoles_outside_the_limits(shared: SharedNode) -> None:
    with Session(shared.api.settings) as session:
        session.commit(
            [
                Create(
                    paths.claim(shared.name),
                    Claim(noderole=shared.theirs, annealer="a", run="0000000000", epoch=1, since=1.0),
                )
            ]
        )
    answer = shared.ask("GET", f"/v1/nodes/{shared.name}")
    assert [each["noderole"] for each in answer.json()["answer"]["noderoles"]] == [shared.mine]
    assert answer.json()["notes"] == ["1 noderole outside the limits of this token is not shown"]
    (row,) = shared.ask("GET", "/v1/nodes").json()["answer"]
    assert (row["noderoles"], row["busy"]) == ("1 PROPOSED", "outside the limits of this token")
    assert "theirs" not in answer.text
    whole = shared.api.ask("GET", f"/v1/nodes/{shared.name}").json()
    assert (len(whole["answer"]["noderoles"]), whole["notes"]) == (2, [])


def test_a_node_with_noderoles_outside_the_limits_is_not_deleted(shared: SharedNode) -> None:
    body: Json = {}
    answer = shared.ask("POST", f"/v1/nodes/{shared.name}/delete?agreed=true", body)
    assert problem(answer)[0] == 403
    assert ("1 noderole outside the limits" in answer.text, "theirs" in answer.text) == (True, False)
    assert shared.states() == {"mine": "PROPOSED", "theirs": "PROPOSED"}
    shared.api.call("noderole/unbind", {"noderoles": [shared.theirs]}, agreed=True)
    assert shared.ask("POST", f"/v1/nodes/{shared.name}/delete?agreed=true", body).status_code == 200
    assert shared.states() == {}


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_a_write_that_would_move_noderoles_outside_the_limits_is_refused_whole(shared: SharedNode, query: str) -> None:
    shared.api.call("node/bind", {"nodes": [shared.name], "roles": ["above"], "deployment": "system"})
    for role in ("mine", "theirs", "above"):
        shared.becomes(role, State.ACTIVE)
    shared.api.call("node/alive", {"nodes": [shared.name]})
    before = shared.states()
    for path, body in (
        (f"/v1/noderoles/{shared.mine}/propose", {}),  # blocks ``above``
        (f"/v1/noderoles/{shared.mine}/redeploy", {}),
        (f"/v1/nodes/{shared.name}/dead", {"reason": "broken"}),
    ):
        answer = shared.ask("POST", path + query, body)
        assert (answer.status_code, shared.states()) == (403, before), (path, answer.text)
        assert "outside the limits" in answer.text
        assert not any(role in answer.text for role in ("theirs", "above"))
    refreshed = shared.ask("POST", f"/v1/noderoles/{shared.mine}/refresh{query}", {})
    assert refreshed.is_success, refreshed.text  # it moves no other


def test_a_hold_ends_no_run_outside_the_limits(shared: SharedNode) -> None:
    shared.becomes("theirs", State.TRANSITION)
    with Session(shared.api.settings) as session:
        session.commit(
            [
                Create(
                    paths.claim(shared.name),
                    Claim(noderole=shared.theirs, annealer="a", run="0000000000", epoch=1, since=1.0),
                )
            ]
        )
    path = f"/v1/nodes/{shared.name}/hold"
    assert shared.ask("POST", path, {"reason": "a test", "force": True}).status_code == 403
    answer = shared.ask("POST", path, {"reason": "a test"})
    assert (answer.status_code, "theirs" in answer.text) == (200, False), answer.text
    assert "1 noderole outside the limits of this token goes on to its end" in answer.text


def test_a_retry_of_all_that_failed_is_for_those_inside_the_limits(shared: SharedNode) -> None:
    for role in ("mine", "theirs"):
        shared.becomes(role, State.ERROR)
    answer = shared.ask("POST", "/v1/noderoles/retry", {"failed": True})
    assert answer.status_code == 202, answer.text
    assert shared.states() == {"mine": "TODO", "theirs": "ERROR"}


def test_a_bind_shows_no_noderole_outside_the_limits_and_takes_none_as_a_parent(shared: SharedNode) -> None:
    path = f"/v1/nodes/{shared.name}/bind"
    answer = shared.ask("POST", path, {"roles": ["theirs"]})
    assert (answer.status_code, answer.json()["answer"]["kept"], LEFT in answer.text) == (200, [], True)
    absent = f"theirs@absent-{shared.name}"
    found = [shared.ask("POST", path, {"roles": ["above"], "parents": [name]}) for name in (shared.theirs, absent)]
    assert [each.status_code for each in found] == [404, 404]
    assert found[0].text.replace(shared.theirs, "X") == found[1].text.replace(absent, "X")


def test_a_new_noderole_outside_the_selector_of_a_token_is_refused(shared: SharedNode) -> None:
    token = shared.api.direct.token(role="operator", selector=f"name:{shared.name} role:mine,theirs")
    path = f"/v1/nodes/{shared.name}/bind"
    assert problem(shared.ask("POST", path, {"roles": ["above"]}, token))[0] == 403
    shared.api.call("noderole/unbind", {"noderoles": [shared.theirs]}, agreed=True)
    assert shared.ask("POST", path, {"roles": ["theirs"]}, token).status_code == 200
    assert shared.states() == {"mine": "PROPOSED", "theirs": "PROPOSED"}


def test_a_deployment_beside_a_selector_is_shown_in_part_and_not_changed(shared: SharedNode) -> None:
    api, path = shared.api, f"/v1/deployments/{shared.deployment}"
    api.call("node/bind", {"nodes": [shared.name], "roles": ["above"]})
    api.call("deployment/create", {"name": f"{shared.deployment}-below", "parent": shared.deployment})
    token = api.direct.token(role="operator", deployments=(shared.deployment,), selector="role:mine")
    shown = shared.ask("GET", path, token=token).json()["answer"]
    assert [each["noderole"] for each in shown["document"]["noderoles"]] == [shared.mine]
    assert (shown["document"]["below"], "-below" in str(shown["tree"])) == ([], False)
    (row,) = shared.ask("GET", "/v1/deployments", token=token).json()["answer"]
    assert row["noderoles"] == "1 PROPOSED"
    for verb in ("commit", "propose", "pause"):
        body: Json = {"reason": "a test"} if verb == "pause" else {}
        assert problem(shared.ask("POST", f"{path}/{verb}", body, token))[0] == 403
    assert shared.ask("POST", f"{path}/commit", {}).status_code == 202  # without a selector


def test_a_412_tells_a_limited_token_of_changes_inside_its_limits_alone(shared: SharedNode) -> None:
    api, path = shared.api, f"/v1/nodes/{shared.name}"
    own: Json = {"assignments": ["rack=own"]}
    api.call("deployment/create", {"name": f"{shared.deployment}-secret"})
    api.call("node/move", {"nodes": [shared.name], "deployment": f"{shared.deployment}-secret"})
    version = api.ask("GET", path).headers["etag"]
    api.call("node/move", {"nodes": [shared.name], "deployment": shared.deployment}, reason="secret plan")
    stale = api.ask("PATCH", path, own, shared.token, If_Match=version)
    assert (problem(stale)[0], "secret" in stale.text, "node move" in stale.text) == (412, False, False)
    assert f"node {shared.name} has changed; the request demands" in stale.json()["detail"]
    assert "secret plan" in api.ask("PATCH", path, own, If_Match=version).json()["detail"]
    api.call("node/set", {"nodes": [shared.name], "assignments": ["labels.a=b"]}, reason="inside")
    detail = api.ask("PATCH", path, own, shared.token, If_Match=version).json()["detail"]
    assert "node set" in detail
    assert "inside" in detail


def test_the_power_of_a_node_with_noderoles_outside_the_limits_is_not_switched_off(shared: SharedNode) -> None:
    shared.api.call("power/set", {"nodes": [shared.name], "assignments": ["driver=manual"]})
    for verb in ("off", "cycle"):
        answer = shared.ask("POST", f"/v1/nodes/{shared.name}/power/{verb}", {})
        assert answer.status_code == 403
        assert "1 noderole outside the limits of this token, which its power serves" in answer.text
    assert shared.ask("POST", f"/v1/nodes/{shared.name}/power/set", {}).status_code in (404, 405)
    assert shared.ask("PATCH", f"/v1/nodes/{shared.name}/power", {"assignments": ["chassis=c1"]}).status_code == 403
    assert [row["node"] for row in shared.ask("GET", "/v1/power").json()["answer"]] == [shared.name]
    assert shared.ask("POST", f"/v1/nodes/{shared.name}/power/on", {}).status_code == 200


def test_the_power_of_a_node_outside_the_limits_is_absent(shared: SharedNode) -> None:
    shared.api.call("node/create", {"name": f"far{shared.name}", "node": {"deployment": "system"}})
    shared.api.call("power/set", {"nodes": [f"far{shared.name}"], "assignments": ["driver=manual"]})
    assert shared.ask("GET", "/v1/power").json()["answer"] == []
    for method, path in (("GET", "power"), ("POST", "power/on"), ("POST", "power/check")):
        absent = shared.ask(method, f"/v1/nodes/absent.example.com/{path}", None if method == "GET" else {})
        outside = shared.ask(method, f"/v1/nodes/far{shared.name}/{path}", None if method == "GET" else {})
        assert (outside.status_code, absent.status_code) == (404, 404)

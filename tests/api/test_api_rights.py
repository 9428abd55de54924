"""Tokens on a real server: roles, limits, reveal, revocation, and requests of other sites."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from nodepool_ocb.catalogue import files
from nodepool_ocb.model import paths
from nodepool_ocb.model.journal import Effect, Entry
from nodepool_ocb.model.records import Append, Change, Create, Delete, Json, NodeRole, Set, State
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.operations.rollouts.starting import RolloutStart
from nodepool_ocb.operations.tokens.reading import TokenShow
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from nodepool_ocb.rollout import reading
from nodepool_ocb.store.client.session import Session
from tests.api.events import EventClient
from tests.api.served import ServedApi, problem
from tests.page import tree

N1, N2 = "n1.example.com", "n2.example.com"


@pytest.fixture(scope="module")
def cluster(api: ServedApi, tmp_path_factory: pytest.TempPathFactory) -> ServedApi:
    """Two deployments with a node each, which has a role."""
    role = tmp_path_factory.mktemp("barclamps") / "base.yml"
    role.write_text("barclamp: {name: base, version: 1}\nroles:\n  - {name: base, jig: noop}\n")
    api.direct.perform(BarclampImport(files=files.read([role])))
    for deployment, node in (("lab", N1), ("web", N2)):
        api.call("deployment/create", {"name": deployment})
        api.call("node/create", {"name": node, "node": {"deployment": deployment, "tags": [deployment]}})
        api.call("node/bind", {"nodes": [node], "roles": ["base"]})
    return api


def test_a_request_without_a_valid_token_is_refused_in_the_same_words(api: ServedApi) -> None:
    revoked = api.direct.token()
    api.direct.perform(TokenRevoke(tokens=(revoked.split("_")[1],)))
    ended = api.direct.token(seconds=0.001)
    wrong = f"{api.token[:-1]}{'A' if api.token[-1] != 'A' else 'B'}"
    answers = [
        api.ask("GET", "/v1/nodes", token=token) for token in (revoked, ended, wrong, f"ocb_{'0' * 12}_{'A' * 43}")
    ]
    assert [problem(each) for each in answers] == [(401, "unauthorized", "Unauthorized")] * 4
    assert len({each.json()["detail"] for each in answers}) == 1
    assert all("www-authenticate" in each.headers for each in answers)
    for header in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}):
        assert problem(api.client.get("/v1/nodes", headers=header))[0] == 401
    assert problem(api.client.get(f"/v1/nodes?token={api.token}"))[0] == 401


@pytest.mark.parametrize("wanted", ["", "*", "ETAG"])
@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        (f"/v1/nodes/{N2}", {"role": "viewer", "deployments": ("lab",)}, 404),
        ("/v1/deployments/web", {"role": "viewer", "deployments": ("lab",)}, 404),
        (f"/v1/noderoles/base@{N2}", {"role": "viewer", "deployments": ("lab",)}, 404),
        (f"/v1/nodes/{N2}", {"role": "node", "selector": f"name:{N1}"}, 404),
        ("/v1/tokens/OTHER", {"role": "join"}, 403),
        ("/v1/deployments/nothing", {"role": "viewer"}, 404),
    ],
)
def test_what_another_token_has_read_opens_nothing(
    cluster: ServedApi, path: str, token: dict[str, Any], status: int, wanted: str
) -> None:
    path = path.replace("OTHER", cluster.token.split("_")[1])
    own = cluster.direct.token(**token)
    read = cluster.ask("GET", path)
    headers = {"If_None_Match": read.headers.get("etag", '"x"') if wanted == "ETAG" else wanted} if wanted else {}
    assert cluster.ask("GET", path, token=own, **headers).status_code == status


@pytest.mark.parametrize(
    ("role", "opened", "refused"),
    [
        ("viewer", ["GET /v1/nodes"], ["POST /v1/deployments/x/propose", "POST /v1/tokens"]),
        (
            "operator",
            ["GET /v1/nodes", "PUT /v1/deployments/of-operator"],
            ["POST /v1/tokens", "POST /v1/secrets/rotate"],
        ),
        ("join", ["POST /v1/nodes"], ["GET /v1/nodes", "PUT /v1/deployments/of-join", "GET /v1/tokens"]),
        ("register", [], ["POST /v1/nodes", "GET /v1/nodes", "GET /v1/registrations"]),
    ],
)
def test_a_role_opens_its_operations_and_no_other(
    cluster: ServedApi, role: str, opened: list[str], refused: list[str]
) -> None:
    token = cluster.direct.token(role=role)
    bodies: dict[str, Json] = {
        "/v1/nodes": {"name": f"{role}.example.com", "node": {}},
        "/v1/tokens": {"name": "x"},
    }
    for words in opened + refused:
        method, path = words.split()
        answer = cluster.ask(method, path, bodies.get(path, {}) if method != "GET" else None, token, If_Match="*")
        assert answer.status_code == (200 if words in opened else 403), (words, answer.text)


def test_limits_by_deployments_show_and_move_only_their_objects(cluster: ServedApi) -> None:
    token = cluster.direct.token(role="operator", deployments=("lab",))
    nodes = cluster.ask("GET", "/v1/nodes", token=token).json()["answer"]
    assert [row["name"] for row in nodes] == [N1]
    deployments = cluster.ask("GET", "/v1/deployments", token=token).json()["answer"]
    assert [row["name"] for row in deployments] == ["lab"]
    for path in ("/v1/noderoles", "/v1/noderoles?selector=role:base"):
        noderoles = cluster.ask("GET", path, token=token).json()["answer"]["rows"]
        assert [row["noderole"] for row in noderoles] == [f"base@{N1}"]
    states = cluster.ask("GET", "/v1/noderole-states", token=token).json()["answer"]
    assert (states["nodes"], states["states"]) == ([N1], ["P"])
    counted = cluster.ask("GET", "/v1/noderole-states?roles_only=true", token=token).json()["answer"]
    assert counted["nodes"] == []
    assert [(each["role"], each["noderoles"]) for each in counted["roles"]] == [("base", {"PROPOSED": 1})]
    for deployment, names in (("lab", [N1]), ("web", [])):
        timeline = cluster.ask("GET", f"/v1/noderole-runs?selector=deployment:{deployment}", token=token)
        assert timeline.json()["answer"]["nodes"] == names, timeline.text
    outdated = cluster.ask("GET", "/v1/noderoles?outdated=true", token=token).json()["answer"]
    assert (outdated["rows"], outdated["outdated"]) == ([], [])
    assert cluster.ask("GET", f"/v1/nodes/{N1}", token=token).status_code == 200
    hold: Json = {"reason": "a test"}
    assert cluster.ask("POST", f"/v1/nodes/{N1}/hold", hold, token, If_Match="*").status_code == 200
    meant = cluster.ask("POST", "/v1/nodes/unavailable", {"selector": "*"}, token, If_Match="*").json()
    assert {row["name"] for row in meant["rows"]} == {N1}


@pytest.mark.parametrize(
    "limits", [{"deployments": ("lab",)}, {"selector": "tag:lab"}], ids=["deployments", "selector"]
)
def test_an_object_outside_the_limits_and_an_absent_one_answer_alike(
    cluster: ServedApi, limits: dict[str, Any]
) -> None:
    token = cluster.direct.token(role="operator", **limits)
    asked: list[tuple[str, str, Json]] = [
        ("GET", "/v1/nodes/{}", None),
        ("POST", "/v1/nodes/{}/hold", {"reason": "a test"}),
        ("POST", "/v1/operations/node/show", {"fields": {"node": "{}"}}),
        ("POST", "/v1/operations/node/available", {"fields": {"nodes": [N1, "{}"]}}),
        ("GET", "/v1/noderoles/ntp@{}", None),
    ]
    for method, path, body in asked:
        for outside, absent in ((N2, "n9.example.com"),):
            found = []
            for name in (outside, absent):
                sent = None if body is None else eval(repr(body).replace("{}", name))
                answer = cluster.ask(method, path.format(name), sent, token, If_Match="*")
                assert answer.status_code == 404, (path, answer.text)
                found.append(answer.text.replace(name, "NAME"))
            assert found[0] == found[1]
    parts = (
        "rollouts",
        "history",
        "status",
        "graph",
        "graph/picture",
        "causes",
    )  # a selector means parts of deployments
    for path in ("tokens", "records", "images", "pools", "requests", *(parts if "selector" in limits else ())):
        assert problem(cluster.ask("GET", f"/v1/{path}", token=token)) == (403, "denied", "Denied"), path


STRATEGY: Final = """
schema: shipyard/DeploymentStrategy/v1
metadata: {name: all}
data:
  groups:
    - {name: every, critical: true, depends_on: [], selectors: [{}], success_criteria: {percent_successful_nodes: 50}}
"""


@pytest.fixture(scope="module")
def rolled(cluster: ServedApi) -> ServedApi:
    """Each deployment has a rollout, and an entry of each is in the journal; one entry is about both."""
    for name in ("lab", "web"):
        cluster.call("deployment/commit", {"name": name, "alone": True})
        cluster.direct.perform(RolloutStart(strategy=reading.load(STRATEGY, called="site.yaml"), deployment=name))
        cluster.call("node/hold", {"nodes": [N1 if name == "lab" else N2], "reason": f"of {name}"}, reason=f"of {name}")
    cluster.call("node/release", {"nodes": [N1, N2]}, reason="of both")
    return cluster


def test_limits_by_deployments_open_the_rollouts_and_the_journal_of_these_deployments(rolled: ServedApi) -> None:
    token = rolled.direct.token(role="viewer", deployments=("lab",))
    rows = rolled.ask("GET", "/v1/rollouts", token=token).json()["answer"]
    assert [row["rollout"] for row in rows] == ["lab/0000000000"]
    for query in ("", "?rollout=lab", "?rollout=0&deployment=lab", "?rollout=lab/0", "?rollout=0"):
        shown = rolled.ask("GET", f"/v1/rollouts/show{query}", token=token).json()["answer"]
        assert shown["key"][0] == "lab", query
    assert rolled.ask("GET", "/v1/task-runs", token=token).json()["answer"] == []
    found = rolled.ask("GET", "/v1/history?limit=50", token=token).json()["answer"]["rows"]
    reasons = [row["reason"] for row in found if str(row["reason"]).startswith("of ")]
    assert reasons == ["of lab"]
    assert len(rolled.ask("GET", "/v1/history?limit=1", token=token).json()["answer"]["rows"]) == 1
    assert {"of web", "of both"} <= {row["reason"] for row in rolled.ask("GET", "/v1/history").json()["answer"]["rows"]}
    chosen = rolled.ask("GET", f"/v1/events/choice?selector=tag:web&names={N1}", token=token).json()["answer"]
    assert (chosen["meant"], chosen["names"]) == ([], [N1])


@pytest.fixture(scope="module")
def failing(cluster: ServedApi) -> ServedApi:
    """Deployments dev and ops: a failed noderole with a child in each, both paused, and a held node in each."""
    for name, number in (("dev", 5), ("ops", 6)):
        node = f"n{number}.example.com"
        cluster.call("deployment/create", {"name": name})
        cluster.call("node/create", {"name": node, "node": {"deployment": name}})
        cluster.call("node/bind", {"nodes": [node], "roles": ["base"]})
        cluster.call("node/hold", {"nodes": [node], "reason": f"of {name}"})
        cluster.call("deployment/pause", {"names": [name], "reason": f"of {name}"})
        if name == "ops":
            cluster.call("deployment/create", {"name": "elsewhere"})
        cluster.direct.token("new")
        with Session(cluster.settings) as session:
            tree.change(session, f"base@{node}", state=State.ERROR, reason="no space", since=time.time())
    return cluster


def test_limits_by_deployments_show_the_status_of_these_deployments_alone(failing: ServedApi) -> None:
    token = failing.direct.token(role="viewer", deployments=("dev",))
    found = failing.ask("GET", "/v1/status", token=token).json()["answer"]
    assert {state: count for state, count in found["noderoles"].items() if count} == {"ERROR": 1}
    assert [each["noderole"] for each in found["errors"]] == ["base@n5.example.com"]
    assert [each["what"] for each in found["aside"]] == ["deployment dev", "node n5.example.com"]
    assert (found["nodes"]["all"], [each["name"] for each in found["nodes"]["not_alive"]]) == (1, ["n5.example.com"])
    assert ([each["name"] for each in found["deployments"]], found["rollouts"]["all"]) == (["dev"], 0)
    assert (found["daemons"], found["quarantined"], found["images"]["all"]) == ([], [], 0)
    whole = failing.ask("GET", "/v1/status").json()["answer"]
    assert {"deployment ops", "node n6.example.com"} <= {each["what"] for each in whole["aside"]}
    assert "api" in {each["kind"] for each in whole["daemons"]}
    failing.call("pause", {"reason": "night"})
    try:
        aside = failing.ask("GET", "/v1/status", token=token).json()["answer"]["aside"]
        assert aside[0]["what"] == "everything"
    finally:
        failing.call("resume")


def test_limits_by_deployments_show_the_graph_and_the_causes_of_these_deployments_alone(failing: ServedApi) -> None:
    token = failing.direct.token(role="viewer", deployments=("dev",))
    graph = failing.ask("GET", "/v1/graph", token=token).json()["answer"]
    assert [each["name"] for each in graph["nodes"]] == ["base@n5.example.com"]
    for place in ("/v1/graph/picture", "/v1/graph/picture?around=base@n5.example.com"):
        boxes = failing.ask("GET", place, token=token).json()["answer"]["boxes"]
        assert [each["states"] for each in boxes] == [{"ERROR": 1}], place
    for query in ("", "?selector=role:base", "?deployment=dev"):
        (cause,) = failing.ask("GET", f"/v1/causes{query}", token=token).json()["answer"]
        assert (cause["examples"], cause["before"]["subjects"]) == (["base@n5.example.com"], ["dev"])
    other = failing.direct.token(role="viewer", deployments=("ops",))
    (cause,) = failing.ask("GET", "/v1/causes", token=other).json()["answer"]
    assert (cause["examples"], cause["before"]) == (["base@n6.example.com"], None)
    (whole,) = failing.ask("GET", "/v1/causes?deployment=ops").json()["answer"]
    assert (whole["before"]["verb"], whole["before"]["subjects"]) == ("deployment create", ["elsewhere"])
    for path, outside, absent in (
        ("/v1/graph/picture?around=base@{}", "n6.example.com", "n9.example.com"),
        ("/v1/graph?deployment={}", "ops", "none"),
        ("/v1/causes?deployment={}", "ops", "none"),
        ("/v1/task-runs/history?run={}", "ops", "none"),
    ):
        answers = [failing.ask("GET", path.format(name), token=token) for name in (outside, absent)]
        assert [each.status_code for each in answers] == [404, 404], path
        assert answers[0].text.replace(outside, "NAME") == answers[1].text.replace(absent, "NAME"), path


def test_an_entry_belongs_to_the_deployment_that_its_object_had(rolled: ServedApi) -> None:
    """The names are moved to lab, and made there again: entries of their time in web stay closed."""
    moved, again, old = "moved.example.com", "again.example.com", "old.example.com"
    begun = rolled.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]["number"]
    for name in (moved, again):
        rolled.call("node/create", {"name": name, "node": {"deployment": "web"}}, reason="of web")
        rolled.call("node/bind", {"nodes": [name], "roles": ["base"]}, reason="of web")
        rolled.call("node/hold", {"nodes": [name], "reason": "of web"}, reason="of web")
    rolled.call("node/move", {"nodes": [moved], "deployment": "lab"}, reason="of both")
    rolled.call("node/delete", {"nodes": [again]}, agreed=True, reason="of web")
    rolled.call("node/create", {"name": again, "node": {"deployment": "lab"}}, reason="of lab, created")
    rolled.call("node/release", {"nodes": [moved]}, reason="of lab, released")
    rolled.call("node/delete", {"nodes": [again]}, agreed=True, reason="of lab, deleted")
    rolled.call("node/create", {"name": old, "node": {"deployment": "lab"}}, reason="of lab, old")
    unplaced = Effect(change="change", kind="node", name=old)
    with Session(rolled.settings) as session:
        entry = Entry(at=1.0, login="ann", host="desk", verb="node set", subjects=(old,), changes=(unplaced,))
        session.commit([Append(paths.JOURNAL_ENTRIES, entry)])
    for deployments, wanted in (
        (("lab",), ["created", "released", "deleted", "old"]),
        (("lab", "web"), [*["web"] * 6, "both", "web", "created", "released", "deleted", "old"]),
    ):
        token = rolled.direct.token(role="viewer", deployments=deployments)
        rows = rolled.ask("GET", "/v1/history?limit=50", token=token).json()["answer"]["rows"]
        assert [row["reason"].split()[-1] for row in rows if row["number"] > begun] == wanted
        stream = EventClient(rolled.address, token, f"/v1/events?since={begun}&kind=entry")
        deadline = time.monotonic() + 10.0
        while len(stream.of("entry")) < len(wanted) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [row["reason"].split()[-1] for row in stream.of("entry")] == wanted
        stream.close()


def test_a_rollout_and_an_entry_outside_the_limits_answer_as_absent_ones(rolled: ServedApi) -> None:
    token = rolled.direct.token(role="viewer", deployments=("lab",))
    for path, outside, absent in (
        ("/v1/rollouts/show?rollout={}", "web", "none"),
        ("/v1/rollouts/show?rollout={}/0", "web", "none"),
        ("/v1/rollouts/show?rollout=0&deployment={}", "web", "none"),
        ("/v1/rollouts/awaited?rollout={}", "web", "none"),
        ("/v1/task-runs?deployment={}", "web", "none"),
        ("/v1/history?names={}", N2, "n9.example.com"),
        ("/v1/history?names={}", "web/0000000000", "none/0000000000"),
        ("/v1/events/choice?names={}", "web", "none"),
    ):
        answers = [rolled.ask("GET", path.format(name), token=token) for name in (outside, absent)]
        assert [each.status_code for each in answers] == [404, 404], path
        assert answers[0].text.replace(outside, "NAME") == answers[1].text.replace(absent, "NAME"), path
    looks: list[Json] = [{"key": [name, "0000000000"]} for name in ("web", "none")]
    answers = [rolled.ask("POST", "/v1/rollouts/wait-look", each, token) for each in looks]
    assert [each.status_code for each in answers] == [404, 404]
    assert answers[0].text.replace("web", "NAME") == answers[1].text.replace("none", "NAME")


def test_a_move_out_of_the_limits_or_into_others_is_refused(cluster: ServedApi) -> None:
    token = cluster.direct.token(role="operator", deployments=("lab",))
    moved = cluster.ask("POST", f"/v1/nodes/{N1}/move", {"deployment": "web"}, token, If_Match="*")
    assert problem(moved)[0] == 404
    shown = cluster.ask("GET", f"/v1/nodes/{N1}").json()["answer"]
    assert shown["deployment"] == "lab"


def test_a_token_of_a_machine_reports_about_its_node_alone(cluster: ServedApi) -> None:
    token = cluster.direct.token(role="node", selector=f"name:{N1}")
    assert cluster.ask("GET", f"/v1/nodes/{N1}", token=token).status_code == 200
    assert problem(cluster.ask("GET", f"/v1/nodes/{N2}", token=token))[0] == 404
    assert problem(cluster.ask("GET", "/v1/nodes", token=token))[0] == 403


def test_a_token_that_joins_creates_nodes_in_its_deployments_alone(cluster: ServedApi) -> None:
    token = cluster.direct.token(role="join", deployments=("lab",))
    for deployment, status in (("lab", 200), ("web", 403)):
        node: Json = {"name": f"j-{deployment}.example.com", "node": {"deployment": deployment}}
        assert cluster.ask("POST", "/v1/nodes", node, token).status_code == status


def test_revealing_is_a_right_of_its_own_also_for_admins_and_for_tokens_that_they_make(cluster: ServedApi) -> None:
    for reveal, status in ((False, 403), (True, 404)):
        token = cluster.direct.token(reveal=reveal)
        asked = cluster.ask("GET", f"/v1/noderoles/ntp@{N1}?reveal=true", token=token)
        assert asked.status_code == status
        made = cluster.ask("POST", "/v1/tokens", {"name": "x", "reveal": True}, token)
        assert made.status_code == (200 if reveal else 403)


def test_the_last_use_of_a_token_is_written_one_time_in_some_minutes(cluster: ServedApi, until: Any) -> None:
    token = cluster.direct.token(role="viewer")
    id = token.split("_")[1]
    cluster.ask("GET", "/v1/nodes", token=token)
    until(lambda: cluster.direct.perform(TokenShow(token=id)).used is not None)
    used = cluster.direct.perform(TokenShow(token=id)).used
    for _ in range(5):
        cluster.ask("GET", "/v1/nodes", token=token)
    assert cluster.direct.perform(TokenShow(token=id)).used == used


@pytest.mark.long
def test_failed_logins_are_answered_after_a_growing_delay_and_valid_ones_at_once(api: ServedApi) -> None:
    wrong = f"ocb_{'0' * 12}_{'A' * 43}"
    for _ in range(4):
        last = api.ask("GET", "/v1/deployments", token=wrong)
    assert last.elapsed.total_seconds() >= 0.8
    assert api.ask("GET", "/v1/deployments").status_code == 200


def test_requests_of_pages_of_other_sites_and_for_other_hosts_are_refused(api: ServedApi) -> None:
    own = api.address.partition("//")[2]
    assert problem(api.ask("GET", "/v1/nodes", Origin="https://evil.example"))[0] == 403
    assert api.ask("GET", "/v1/nodes", Origin=f"http://{own}").status_code == 200
    assert problem(api.ask("GET", "/v1/nodes", Host="evil.example"))[0] == 422
    assert api.ask("GET", "/v1/nodes", Host="localhost:1").status_code == 200
    answer = api.ask("GET", "/v1/nodes")
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")


@pytest.mark.parametrize(
    "fields",
    [
        {"role": "join", "deployments": ("lab",)},
        {"role": "node", "selector": f"name:{N1}"},
        {"role": "viewer", "deployments": ("lab",)},
    ],
    ids=["join", "node", "with limits"],
)
def test_each_token_shows_itself_to_its_holder_and_no_other_token(cluster: ServedApi, fields: dict[str, Any]) -> None:
    """A login asks for it."""
    token = cluster.direct.token(name="self", **fields)
    own, other = token.split("_")[1], cluster.token.split("_")[1]
    for answer in (
        cluster.ask("GET", f"/v1/tokens/{own}", token=token),
        cluster.ask("POST", "/v1/operations/token/show", {"fields": {"token": own}}, token=token),
    ):
        assert answer.status_code == 200, answer.text
        assert '"name":"self"' in answer.text
    assert problem(cluster.ask("GET", f"/v1/tokens/{other}", token=token))[0] == 403
    refused = cluster.ask("POST", "/v1/operations/token/show", {"fields": {"token": other}}, token=token)
    assert problem(refused)[0] == 403


# -- the list of all noderoles, which is joined from parts that were made before --


def rows(api: ServedApi, zxid: int, query: str = "", token: str | None = None) -> dict[str, Json]:
    """The rows by name, no older than a write."""
    answer = api.ask("GET", f"/v1/noderoles{query}", token=token, Ocb_Min_Zxid=str(zxid))
    assert answer.status_code == 200
    return {row["noderole"]: row for row in answer.json()["answer"]["rows"]}


def test_the_list_of_all_noderoles_shows_each_change_at_once(cluster: ServedApi) -> None:
    more, record = paths.noderole("more", N2), NodeRole(state=State.ERROR, since=1.0, deployment="web")
    named, lab = f"more@{N2}", cluster.direct.token(role="viewer", deployments=("lab",))
    steps: list[Change] = [
        Create(more, record),
        *(Set(more, record.amended(reason=f"no disk {number}"), number) for number in range(5)),
        Delete(more, 5),
    ]
    before = rows(cluster, 0)
    with Session(cluster.settings) as session:
        for step in steps:
            session.commit([step])
            whole = rows(cluster, session.last_zxid)
            assert whole == rows(cluster, session.last_zxid, "?limit=1000")
            assert {*whole} == {*before} | (set() if isinstance(step, Delete) else {named})
            assert isinstance(step, Delete) or whole[named]["reason"] == step.data.reason  # type: ignore[union-attr]
            assert {row["deployment"] for row in rows(cluster, session.last_zxid, token=lab).values()} == {"lab"}
            assert [*rows(cluster, session.last_zxid, "?limit=1")] == [min(whole)]
            assert {*rows(cluster, session.last_zxid, "?fields=noderole")[min(whole)]} == {"noderole"}


def test_the_list_of_all_noderoles_is_not_sent_again_and_warns_of_a_record_that_is_unreadable(
    cluster: ServedApi,
) -> None:
    more = paths.noderole("more", N2)
    with Session(cluster.settings) as session:
        session.commit([Create(more, NodeRole(state=State.ERROR, since=1.0, deployment="web"))])
        first = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=str(session.last_zxid))
        session.commit([Set(more, NodeRole(state=State.ACTIVE, since=1.0, deployment="web"), 0)])
        zxid, known = str(session.last_zxid), first.headers["etag"]
        known_all = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=zxid, If_None_Match="*")
        changed = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=zxid, If_None_Match=known)
        same = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=zxid, If_None_Match=changed.headers["etag"])
        assert [each.status_code for each in (known_all, changed, same)] == [304, 200, 304]
        assert changed.json()["notes"] == []
        future = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=str(session.last_zxid + 1_000_000))
        assert problem(future)[0] == 409
        session.commit([Set(more, {"state": "odd"}, 1)])
        odd = cluster.ask("GET", "/v1/noderoles", Ocb_Min_Zxid=str(session.last_zxid))
        session.commit([Delete(more, 2)])
    assert more in odd.json()["notes"][0]

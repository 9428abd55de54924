"""The REST form on a real server: one row for each operation, documents, versions and their conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.api.routes import ROUTES, filled, parameters
from nodepool_ocb.api.versions import BRANCHES
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Delete, Json, Set
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.nodes.holding import NodeHold
from nodepool_ocb.operations.reads import versions
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.api.served import ServedApi, problem

N1: Final = "n1.example.com"


@pytest.fixture(scope="module")
def cluster(api: ServedApi) -> ServedApi:
    api.call("deployment/create", {"name": "lab"})
    api.call("node/create", {"name": N1, "node": {"deployment": "lab"}})
    return api


# -- the table --


def test_every_operation_that_is_not_local_has_exactly_one_row() -> None:
    assert sorted(row.operation for row in ROUTES) == sorted(registry.remote())


def test_no_two_rows_share_a_method_and_a_path() -> None:
    places = [(row.method, path) for row in ROUTES for path in (row.path, row.one) if path is not None]
    assert len(places) == len({*places})


@pytest.mark.parametrize("row", ROUTES, ids=lambda row: row.operation)
def test_a_row_fills_fields_that_its_operation_has(row: object) -> None:
    route = next(each for each in ROUTES if each is row)
    kind = registry.remote()[route.operation]
    for path in (route.path, route.one or route.path):
        assert {*filled(route, kind, dict.fromkeys(parameters(path), "x"))} <= {*kind.__struct_fields__}
    assert (route.method == "GET") <= (not kind.writes)
    assert route.records is None or route.records == "world" or route.records in BRANCHES


# -- documents --


def test_a_get_answers_with_the_document_of_the_command_line(cluster: ServedApi) -> None:
    answer = cluster.ask("GET", f"/v1/nodes/{N1}")
    document = answer.json()
    assert {*document} == {"answer", "notes"}
    assert (document["answer"]["name"], document["answer"]["deployment"]) == (N1, "lab")
    listed = cluster.ask("GET", "/v1/nodes?deployment=lab&selector=name:n1*").json()["answer"]
    assert [row["name"] for row in listed] == [N1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("dry-run=true", "the query has no part 'dry-run'; did you mean `dry_run`?"),
        ("agreed=true&x=1", "the query has no part 'x'; it may have: dry_run, agreed, reason, deadline_seconds, wait"),
        ("assignments=rack=r9", "the field assignments stands in the body of a set, not in the query"),
    ],
)
def test_a_write_with_an_unknown_part_of_its_query_is_refused(cluster: ServedApi, query: str, said: str) -> None:
    answer = cluster.ask("PATCH", f"/v1/nodes/{N1}?{query}", {"assignments": ["rack=r1"]}, If_Match="*")
    assert problem(answer) == (422, "invalid", "Invalid")
    assert answer.json()["detail"] == f"node set: {said}"
    assert cluster.ask("GET", f"/v1/nodes/{N1}").json()["answer"]["rack"] is None


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"adress": "192.0.2.1"}, "adress"),
        ({"hold": {"by": "root", "since": 1}}, "hold"),
        ({"alive": True}, "alive"),
        ({"epoch_base": 7}, "epoch_base"),
        ({"host_keys": ["none"]}, "is no host key"),
        ({"tags": ['["web"']}, "can be no tag"),
    ],
)
def test_a_new_node_has_the_fields_that_its_creator_may_choose(cluster: ServedApi, node: Json, said: str) -> None:
    answer = cluster.ask("POST", "/v1/nodes", {"name": "odd.example.com", "node": node})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True)
    assert cluster.ask("GET", "/v1/nodes/odd.example.com").status_code == 404


def test_a_write_answers_with_rows_and_a_dry_run_writes_nothing(cluster: ServedApi) -> None:
    dry = cluster.ask("PATCH", f"/v1/nodes/{N1}?dry_run=true", {"assignments": ["rack=r9"]}).json()
    assert (dry["dry_run"], dry["rows"][0]["name"]) == (True, N1)
    assert cluster.ask("GET", f"/v1/nodes/{N1}").json()["answer"]["rack"] is None


def test_an_irreversible_change_without_agreement_is_a_conflict(cluster: ServedApi) -> None:
    cluster.ask("PUT", "/v1/deployments/doomed", {})
    asked = cluster.ask("DELETE", "/v1/deployments/doomed", {}, If_Match="*")
    assert problem(asked) == (409, "agreement-needed", "Conflict")
    assert cluster.ask("GET", "/v1/deployments/doomed").status_code == 200
    assert cluster.ask("DELETE", "/v1/deployments/doomed?agreed=true", {}, If_Match="*").status_code == 200
    assert problem(cluster.ask("GET", "/v1/deployments/doomed"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nodes?colour=red", None, 422),
        ("GET", "/v1/history?limit=many", None, 422),
        ("GET", "/v1/nothing", None, 404),
        ("DELETE", "/v1/status", {}, 405),
        ("PATCH", f"/v1/nodes/{N1}", {"colour": "red"}, 422),
        ("PATCH", f"/v1/nodes/{N1}", [], 422),
        ("PATCH", f"/v1/nodes/{N1}", {"nodes": [N1]}, 422),
        ("GET", "/v1/noderoles/ntp", None, 404),
    ],
)
def test_a_wrong_request_is_a_problem_document(
    cluster: ServedApi, method: str, path: str, body: Json, status: int
) -> None:
    assert problem(cluster.ask(method, path, body, If_Match="*"))[0] == status


def test_a_wrong_field_of_a_list_names_the_parts_of_pages_too(cluster: ServedApi) -> None:
    listed, shown = (cluster.ask("GET", f"/v1/{path}?limt=2").json()["detail"] for path in ("nodes", f"nodes/{N1}"))
    assert listed.endswith("; of a list also: limit, cursor, fields")
    assert "cursor" not in shown


def test_a_request_for_nodes_answers_with_its_row_as_every_write_does(cluster: ServedApi) -> None:
    made = cluster.ask("POST", "/v1/requests", {"labels": ["small"]}).json()
    assert made["rows"] == [made["answer"]["row"]]
    id = made["answer"]["request"]
    assert made["rows"][0]["name"] == id
    assert cluster.ask("POST", f"/v1/requests/{id}/delete?agreed=true", {}, If_Match="*").status_code == 200


# -- versions --


def test_a_document_has_the_version_of_its_records_and_an_unchanged_one_is_not_sent_again(cluster: ServedApi) -> None:
    for path in (f"/v1/nodes/{N1}", "/v1/nodes"):
        first = cluster.ask("GET", path)
        version = first.headers["etag"]
        same = cluster.ask("GET", path, If_None_Match=version)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", version)
        done = cluster.ask("PATCH", f"/v1/nodes/{N1}", {"assignments": [f"labels.of={path[-1]}"]}, If_Match="*")
        changed = cluster.ask("GET", path, If_None_Match=version, Ocb_Min_Zxid=done.headers["ocb-zxid"])
        assert (changed.status_code, changed.headers["etag"] == version) == (200, False)


def test_a_list_shows_the_end_of_a_hold_without_a_write(cluster: ServedApi, until: Callable[..., None]) -> None:
    """The list was read while it held, and no record has changed since."""

    def held() -> bool:
        row = next(each for each in cluster.ask("GET", "/v1/nodes").json()["answer"] if each["name"] == N1)
        return row["held"] is not None

    with Session(cluster.settings) as session:
        ends = session.now() + 2.0
    cluster.direct.perform(NodeHold(nodes=(N1,), reason="new disk", until=ends))
    until(held)
    until(lambda: not held())


def test_a_read_takes_no_words_for_a_write(cluster: ServedApi) -> None:
    answer = cluster.ask("GET", "/v1/nodes?reason=x&dry_run=true")
    assert problem(answer)[0] == 422
    assert answer.json()["detail"] == "node list: it writes nothing, so it takes no dry_run and no reason"


def test_a_write_to_one_object_needs_its_version(cluster: ServedApi) -> None:
    version = cluster.ask("GET", f"/v1/nodes/{N1}").headers["etag"]
    change: Json = {"assignments": ["labels.step=one"]}
    assert problem(cluster.ask("PATCH", f"/v1/nodes/{N1}", change)) == (428, "version-lacking", "VersionLacking")
    assert cluster.ask("PATCH", f"/v1/nodes/{N1}", change, If_Match=version).status_code == 200
    stale = cluster.ask("PATCH", f"/v1/nodes/{N1}", {"assignments": ["labels.step=two"]}, If_Match=version)
    assert problem(stale) == (412, "version-differs", "VersionDiffers")
    assert cluster.ask("GET", f"/v1/nodes/{N1}").json()["answer"]["labels"]["step"] == "one"
    assert cluster.ask("PATCH", f"/v1/nodes/{N1}", change, If_Match="*").status_code == 200


def test_a_create_can_demand_that_nothing_exists(cluster: ServedApi) -> None:
    assert cluster.ask("PUT", "/v1/deployments/fresh", {}, If_None_Match="*").status_code == 200
    again = cluster.ask("PUT", "/v1/deployments/fresh", {}, If_None_Match="*")
    assert problem(again)[0] in (409, 412)
    assert problem(cluster.ask("PUT", "/v1/deployments/fresh", {}))[0] == 409


def test_a_write_by_selector_needs_the_version_of_its_plan(cluster: ServedApi) -> None:
    order: Json = {"selector": "name:n1*", "assignments": ["labels.by=selector"]}
    assert problem(cluster.ask("PATCH", "/v1/nodes", order))[0] == 428
    plan = cluster.ask("PATCH", "/v1/nodes?dry_run=true", order).headers["etag"]
    cluster.ask("PATCH", f"/v1/nodes/{N1}", {"assignments": ["labels.between=yes"]}, If_Match="*")
    assert problem(cluster.ask("PATCH", "/v1/nodes", order, If_Match=plan))[0] == 412
    plan = cluster.ask("PATCH", "/v1/nodes?dry_run=true", order).headers["etag"]
    assert cluster.ask("PATCH", "/v1/nodes", order, If_Match=plan).status_code == 200


# -- lists that are sent again --


def test_a_list_is_made_again_after_a_change_and_for_other_limits(cluster: ServedApi) -> None:
    """The server keeps the bytes of lists by request and version."""
    cluster.call("deployment/create", {"name": "other"})
    cluster.call("node/create", {"name": "o1.example.com", "node": {"deployment": "other"}})
    limited = cluster.direct.token(name="kim", role="viewer", deployments=("other",))

    def names(token: str | None = None) -> list[str]:
        rows = cluster.ask("GET", "/v1/nodes", token=token, Ocb_Min_Zxid=zxid).json()["answer"]
        return [row["name"] for row in rows]

    zxid = cluster.ask("GET", "/v1/nodes").headers["ocb-zxid"]
    whole = names()
    assert {N1, "o1.example.com"} <= {*whole}
    assert names() == whole
    assert names(limited) == ["o1.example.com"]
    assert names() == whole
    made = cluster.ask("POST", "/v1/nodes", {"name": "o2.example.com", "node": {"deployment": "other"}})
    zxid = made.headers["ocb-zxid"]
    assert "o2.example.com" in names()
    assert names(limited) == ["o1.example.com", "o2.example.com"]


def test_a_path_or_a_method_that_does_not_exist_names_the_document_of_all(cluster: ServedApi) -> None:
    absent, other = cluster.ask("GET", "/v1/nodez"), cluster.ask("DELETE", f"/v1/nodes/{N1}")
    assert (absent.status_code, other.status_code) == (404, 405)
    assert absent.json()["detail"] == "this server has no such path; GET /openapi.json lists all"
    assert other.json()["detail"].startswith("this path has no DELETE; it has ")
    assert {"GET", "PATCH"} <= {*other.headers["allow"].split(", ")}


@pytest.mark.parametrize("limit", [-1, 1 << 64])
def test_a_number_of_entries_that_no_list_can_have_is_refused(cluster: ServedApi, limit: int) -> None:
    answer = cluster.ask("GET", f"/v1/history?limit={limit}")
    assert problem(answer)[0] == 422
    assert "limit" in answer.json()["detail"]


def test_the_answer_of_a_write_has_the_version_that_it_made(cluster: ServedApi) -> None:
    path, other, change = f"/v1/nodes/{N1}", {"assignments": ["labels.other=1"]}, {"assignments": ["labels.other=2"]}
    first = cluster.ask("PATCH", path, {"assignments": ["labels.version=one"]}, If_Match="*")
    assert first.headers["etag"] == cluster.ask("GET", path).headers["etag"]
    second = cluster.ask("PATCH", path, {"assignments": ["labels.version=two"]}, If_Match=first.headers["etag"])
    assert (second.status_code, second.headers["etag"] == first.headers["etag"]) == (200, False)
    same = cluster.ask("PATCH", path, {"assignments": ["labels.version=two"]}, If_Match=second.headers["etag"])
    assert (same.json()["rows"], same.headers["etag"]) == ([], second.headers["etag"])
    cluster.ask("PATCH", path, other, If_Match="*")
    assert problem(cluster.ask("PATCH", path, change, If_Match=second.headers["etag"]))[0] == 412
    unseen = cluster.ask("PATCH", path, other, If_Match=second.headers["etag"])  # it changes nothing
    assert (unseen.status_code, "etag" in unseen.headers) == (200, False)
    created = cluster.ask("PUT", "/v1/deployments/versioned", {}, If_None_Match="*").headers["etag"]
    for body in ({"schedule": "0 3 * * *"}, {}):
        checked = cluster.ask("PUT", "/v1/deployments/versioned/checks", body, If_Match=created)
        assert checked.status_code == 200, checked.text
        created = checked.headers["etag"]
    gone = cluster.ask("DELETE", "/v1/deployments/versioned?agreed=true", {}, If_Match=created)
    assert (gone.status_code, "etag" in gone.headers) == (200, False)


def test_the_version_of_the_document_of_a_deployment_serves_a_write_to_it(cluster: ServedApi) -> None:
    path = "/v1/deployments/read-first"
    cluster.ask("PUT", path, {}, If_None_Match="*")
    version = cluster.ask("GET", path).headers["etag"]
    assert cluster.ask("GET", path, If_None_Match=version).status_code == 304
    cluster.ask("PATCH", f"/v1/nodes/{N1}", {"assignments": ["labels.elsewhere=1"]}, If_Match="*")
    assert cluster.ask("GET", path, If_None_Match=version).status_code == 200, "it may show the node"
    schedule: Json = {"schedule": "0 4 * * *"}
    assert cluster.ask("PUT", f"{path}/checks", schedule, If_Match=version).status_code == 200
    assert problem(cluster.ask("PUT", f"{path}/checks", {}, If_Match=version))[0] == 412


def test_a_change_of_another_writer_in_the_meantime_leaves_the_version_out(cluster: ServedApi) -> None:
    """Its digest would let a client replace a change that it has not seen."""
    name = "between.example.com"
    cluster.call("node/create", {"name": name, "node": {"deployment": "lab"}})
    branch, beside = paths.node(name), f"{paths.noderoles(name)}/other"
    with Session(cluster.settings) as session:
        before = versions.seen(session, branch)
        view = load_world(session).nodes[name]
        assert view.record is not None
        change = Set(branch, replace(view.record, rack="mine"), view.version)
        stats = session.commit([change])

        def version() -> str | None:
            return versions.written(session, branch, before, [change], stats)

        assert version() == versions.digest(versions.seen(session, branch).items())
        session.commit([Create(beside, None)])  # by another writer
        assert version() is None
        session.commit([Delete(beside, 0)])
        assert version() is not None
        session.commit([replace(change, version=view.version + 1)])
        assert version() is None


def test_each_path_that_is_read_answers_head_without_a_body(cluster: ServedApi) -> None:
    for path in (f"/v1/nodes/{N1}", "/v1/nodes", "/openapi.json", "/"):
        read, head = cluster.ask("GET", path), cluster.ask("HEAD", path)
        assert (head.status_code, head.content) == (read.status_code, b"") == (200, b""), path
        assert head.headers.get("etag") == read.headers.get("etag")
        assert head.headers["content-length"] == str(len(read.content))
    version = cluster.ask("GET", f"/v1/nodes/{N1}").headers["etag"]
    assert cluster.ask("HEAD", f"/v1/nodes/{N1}", If_None_Match=version).status_code == 304
    assert cluster.ask("HEAD", "/v1/nodes/none.example.com").status_code == 404
    assert cluster.ask("HEAD", f"/v1/nodes/{N1}", token="wrong").status_code == 401
    refused = cluster.ask("HEAD", "/v1/nodes/import")
    assert (refused.status_code, "HEAD" in refused.headers["allow"]) == (405, False)
    assert "HEAD" in cluster.ask("DELETE", f"/v1/nodes/{N1}").headers["allow"]
    assert cluster.ask("HEAD", "/v1/events").status_code == 405  # it has no end


def test_the_reason_in_a_field_of_an_operation_is_that_of_the_journal(cluster: ServedApi) -> None:
    for reason, more in (("a disk", {}), ("a fan", {"reason": "a fan"})):
        cluster.call("node/hold", {"nodes": [N1], "reason": "a disk"}, **more)
        newest = cluster.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]
        assert (newest["verb"], newest["reason"]) == ("node hold", reason)
        cluster.call("node/release", {"nodes": [N1]})

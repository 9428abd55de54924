"""``POST /v1/operations/NAME`` on a real server: streams, refusals, agreement, deadlines, and the journal."""

from __future__ import annotations

import json

import msgspec
import pytest

from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.deployments.reading import DeploymentList
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.wire.codec import decode_answer
from nodepool_ocb.operations.wire.lines import decode_line
from tests.api.served import ServedApi, problem


def keys(lines: list[Json]) -> list[str]:
    return [next(iter(line)) for line in lines]


def test_a_read_answers_with_the_same_value_as_directly(api: ServedApi) -> None:
    answer = api.ask("POST", "/v1/operations/deployment/list", {})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    first, last = (decode_line(line.encode()) for line in answer.text.splitlines())
    assert isinstance(first.answer, msgspec.Raw)
    assert decode_answer(DeploymentList, bytes(first.answer)) == api.direct.perform(DeploymentList())
    assert last.done is not msgspec.UNSET
    assert last.done.zxid > 0
    assert answer.headers["ocb-cluster"]
    assert float(answer.headers["ocb-age"]) < 10.0


def test_a_write_is_journaled_with_the_token_s_name_the_client_s_address_and_its_reason(api: ServedApi) -> None:
    lines = api.call("deployment/create", {"name": "lab"}, reason="a test")
    assert keys(lines) == ["answer", "rows", "done"]
    assert [(row["change"], row["name"]) for row in lines[1]["rows"]] == [("create", "lab")]
    entry = next(iter(api.direct.perform(HistoryRead(names=("lab",))).rows)).record
    assert (entry.login, entry.host, entry.verb, entry.reason) == ("ann", "127.0.0.1", "deployment create", "a test")
    assert "lab" in str(api.call("deployment/list"))


def test_a_dry_run_writes_nothing_and_gives_the_digest_of_its_plan(api: ServedApi) -> None:
    lines = api.call("deployment/create", {"name": "parched"}, dry_run=True)
    assert lines[-1]["done"]["dry_run"]
    assert len(lines[-1]["done"]["plan"]) == 24
    assert "parched" not in str(api.call("deployment/list"))


def test_an_irreversible_change_asks_for_agreement_and_writes_nothing_without_it(api: ServedApi) -> None:
    api.call("deployment/create", {"name": "doomed"})
    asked = api.call("deployment/delete", {"name": "doomed"})
    assert keys(asked) == ["agree", "done"]
    assert "doomed" in asked[0]["agree"]["text"]
    assert "doomed" in str(api.call("deployment/list"))
    agreed = api.call("deployment/delete", {"name": "doomed"}, agreed=True)
    assert keys(agreed) == ["answer", "rows", "done"]
    assert "doomed" not in str(api.call("deployment/list"))


@pytest.mark.parametrize(
    ("name", "body", "refusal"),
    [
        ("node/show", {"fields": {"node": "n9.example.com"}}, (404, "not-found", "NotFound")),
        ("node/show", {"fields": {"host": "n9"}}, (422, "invalid", "Invalid")),
        ("node/show", {}, (422, "invalid", "Invalid")),
        ("node/list", {"fields": {"selector": "tag:"}}, (422, "invalid", "Invalid")),
        ("node/list", {"deadline_seconds": 0}, (422, "invalid", "Invalid")),
        ("node/list", {"nonsense": 1}, (422, "invalid", "Invalid")),
        ("node/dance", {}, (404, "not-found", "NotFound")),
        ("init", {}, (404, "not-found", "NotFound")),
        ("deployment/create", {"fields": {"name": "system"}}, (409, "conflict", "Conflict")),
    ],
)
def test_a_refusal_before_any_work_is_a_problem_document(
    api: ServedApi, name: str, body: Json, refusal: tuple[int, str, str]
) -> None:
    assert problem(api.ask("POST", f"/v1/operations/{name}", body)) == refusal


def test_a_body_that_is_no_json_or_too_large_is_refused(api: ServedApi) -> None:
    headers = {"Authorization": f"Bearer {api.token}"}
    broken = api.client.post("/v1/operations/node/list", content=b"{", headers=headers)
    assert problem(broken) == (422, "invalid", "Invalid")
    large = api.client.post("/v1/operations/node/list", content=b" " * (11 << 20), headers=headers)
    assert problem(large)[0] == 413


def test_a_write_by_selector_is_carried_out_only_by_the_plan_of_its_dry_run(api: ServedApi) -> None:
    for name in ("p1.example.com", "p2.example.com"):
        api.call("node/create", {"name": name, "node": {"tags": ["plan"]}})
    fields = {"selector": "tag:plan", "reason": "a test"}
    plan = api.call("node/hold", fields, dry_run=True)[-1]["done"]["plan"]
    api.call("node/set", {"nodes": ["p1.example.com"], "assignments": ["rack=r1"]})
    stale = api.ask("POST", "/v1/operations/node/hold", {"fields": fields}, If_Match=f'"{plan}"')
    assert problem(stale) == (412, "version-differs", "VersionDiffers")
    plan = api.call("node/hold", fields, dry_run=True)[-1]["done"]["plan"]
    done = api.ask("POST", "/v1/operations/node/hold", {"fields": fields}, If_Match=f'"{plan}"')
    rows = json.loads(done.text.splitlines()[1])["rows"]
    assert [row["name"] for row in rows] == ["p1.example.com", "p2.example.com"]


def test_a_read_after_a_write_through_any_server_shows_it_by_its_zxid(api: ServedApi) -> None:
    for number in range(10):
        zxid = api.call("deployment/create", {"name": f"own-{number}"})[-1]["done"]["zxid"]
        listed = api.ask("GET", "/v1/deployments", Ocb_Min_Zxid=str(zxid))
        assert f"own-{number}" in listed.text
        assert int(listed.headers["ocb-zxid"]) >= zxid
    foreign = api.ask("GET", "/v1/deployments", Ocb_Min_Zxid=str(10**15))
    assert problem(foreign) == (409, "conflict", "Conflict")

"""``/openapi.json`` describes each route, and the server answers drawn requests as it describes."""

from __future__ import annotations

import json
import warnings
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.checks import not_a_server_error

from nodepool_ocb.api import documents
from nodepool_ocb.api.calls import OPERATIONS
from nodepool_ocb.api.foreign.described import described
from nodepool_ocb.api.foreign.fuel import KEYSTONE
from nodepool_ocb.api.routes import BUILD_LOG_PATH, EVENTS_PATH, PICTURE_PATH, ROUTES, RUN_LOG_PATH
from tests.api.served import ServedApi

SEED: Final = 20261127
CASES: Final = 150
LONG_CASES: Final = 10_000


def test_the_document_has_each_route_and_each_operation(api: ServedApi) -> None:
    served = api.client.get("/openapi.json").json()
    assert served == json.loads(documents.openapi_json())
    places = {(path, method.upper()) for path, item in served["paths"].items() for method in item}
    rows = {(path, row.method) for row in ROUTES for path in (row.path, row.one) if path is not None}
    of_logs = {path + more for path in (RUN_LOG_PATH, BUILD_LOG_PATH) for more in ("", "/seen")}
    others = {(path, "GET") for path in (EVENTS_PATH, PICTURE_PATH, *of_logs)}
    foreign = {(path, method.upper()) for path, method, _ in described(documents.REFUSALS)}
    assert places == rows | {(f"/v1/operations/{name}", "POST") for name in OPERATIONS} | others | foreign
    every = [each for item in served["paths"].values() for each in item.values()]
    assert all(each["summary"] and {"200", "401", "403", "404", "503"} <= each["responses"].keys() for each in every)
    assert len({each["operationId"] for each in every}) == len(every)


def drawn(api: ServedApi, cases: int) -> None:
    """Send as many drawn requests, and judge each answer by the document."""
    schema = schemathesis.openapi.from_dict(documents.openapi())
    checks.load_all_checks()
    judged: list[Any] = [
        not_a_server_error,
        *(
            checks.CHECKS.get_by_names(
                ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
            )
        ),
    ]
    left = schema.exclude(path=[EVENTS_PATH, KEYSTONE])  # endless, and late after each wrong password
    every = [found.ok().as_strategy() for found in left.get_all_operations()]
    headers = {"Authorization": f"Bearer {api.token}"}

    @seed(SEED)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.one_of(every))
    def judge(case: Any) -> None:
        case.call_and_validate(base_url=api.address, headers=headers, checks=judged)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library about itself
        judge()


def test_drawn_requests_get_no_server_error_and_no_undocumented_answer(api: ServedApi) -> None:
    drawn(api, CASES)


@pytest.mark.long
def test_many_drawn_requests_get_no_server_error_and_no_undocumented_answer(api: ServedApi) -> None:
    drawn(api, LONG_CASES)

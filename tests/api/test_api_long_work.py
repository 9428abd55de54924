"""Work that goes on after its request: 202 with the address of its object, and ``?wait=`` for its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest
from click.testing import CliRunner

from nodepool_ocb.api import documents
from nodepool_ocb.api.actor import Actor
from nodepool_ocb.api.calls import OPERATIONS
from nodepool_ocb.api.longwork import awaited, location
from nodepool_ocb.api.performing import Answered
from nodepool_ocb.api.routes import ROUTES
from nodepool_ocb.cli.main import cli
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.model import paths
from nodepool_ocb.model.executions import Key
from nodepool_ocb.model.records import NodeRole, Set, State
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.calls import longwork
from nodepool_ocb.operations.commits.committing import Committed
from nodepool_ocb.operations.images.building import BuildAsked, ImageBuild
from nodepool_ocb.operations.images.watching import BuildSeen
from nodepool_ocb.operations.noderoles.reading import NoderoleList
from nodepool_ocb.operations.nodes.committing import NodeCommit
from nodepool_ocb.operations.operation import Operation, Performed
from nodepool_ocb.operations.requests.reading import RequestShow
from nodepool_ocb.operations.rollouts.reading import RolloutShow
from nodepool_ocb.operations.tasks.running import TaskRunBegun, TasksRun
from nodepool_ocb.operations.tasks.runs import TasksHistory
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.views.builds import BuildProgress
from nodepool_ocb.views.changes import ChangeRow
from tests.api.served import ServedApi, problem

BARCLAMP: Final = "barclamp: {name: plain, version: 1}\nroles: [{name: plain, jig: noop}, {name: other, jig: noop}]\n"
ROW: Final = ChangeRow(change="change", kind="noderole", name="a@n1", state="TODO")


@pytest.fixture(scope="module", autouse=True)
def role(api: ServedApi, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("roles") / "plain.yaml"
    file.write_text(BARCLAMP)
    done = CliRunner().invoke(cli, ["--zookeeper", api.settings.hosts, "barclamp", "import", str(file)])
    assert done.exit_code == 0, done.output


@pytest.fixture
def node(api: ServedApi, request: pytest.FixtureRequest) -> str:
    """A node of its own, with one PROPOSED noderole of role ``plain``."""
    deployment = f"d{abs(hash(request.node.name)) % 10**9}"
    name = f"{deployment}.example.com"
    api.call("deployment/create", {"name": deployment})
    api.call("node/create", {"name": name, "node": {"deployment": deployment}})
    bound = api.ask("POST", f"/v1/nodes/{name}/bind", {"roles": ["plain"]}, If_Match="*")
    assert bound.status_code == 200, bound.text
    return name


def becomes(api: ServedApi, name: str, state: State, **fields: Any) -> None:
    """Put a noderole into a state, as an annealer would."""
    with Session(api.settings) as session:
        vertex = load_world(session).vertex(name)
        assert vertex is not None
        record = NodeRole.of(
            state=state, since=1.0, deployment=vertex.record.deployment, parents=vertex.record.parents, **fields
        )
        session.commit([Set(paths.noderole(*paths.split_noderole(name)), record, vertex.version)])


def meanwhile(ask: Callable[[], httpx.Response], act: Callable[[], None], until: Callable[[], bool]) -> httpx.Response:
    """The answer to a request, during which ``act`` happens once ``until`` holds."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask)
        deadline = time.monotonic() + 20
        while not until():
            assert time.monotonic() < deadline, "the write of the request was not seen"
            time.sleep(0.05)
        act()
        return answer.result(30)


def state_of(api: ServedApi, name: str) -> Any:
    return api.ask("GET", f"/v1/noderoles/{name}").json()["answer"]["state"]


def test_a_commit_answers_202_with_the_address_of_its_node_and_a_dry_run_200(api: ServedApi, node: str) -> None:
    path = f"/v1/nodes/{node}/commit"
    dry = api.ask("POST", f"{path}?dry_run=true", {})
    assert (dry.status_code, dry.headers.get("location")) == (200, None)
    begun = api.ask("POST", path, {}, If_Match="*")
    assert (begun.status_code, begun.headers["location"]) == (202, f"/v1/nodes/{node}"), begun.text
    assert [row["name"] for row in begun.json()["rows"]] == [f"plain@{node}"]
    assert api.ask("GET", begun.headers["location"]).json()["answer"]["name"] == node
    again = api.ask("POST", path, {}, If_Match="*")
    assert (again.status_code, again.headers.get("location")) == (200, None)


def test_a_wait_answers_200_with_the_final_document_as_soon_as_all_are_active(api: ServedApi, node: str) -> None:
    name, deployment = f"plain@{node}", f"/v1/deployments/{node.partition('.')[0]}"
    answer = meanwhile(
        lambda: api.ask("POST", f"{deployment}/commit?wait=25", {}, If_Match="*"),
        lambda: becomes(api, name, State.ACTIVE),
        lambda: state_of(api, name) == "TODO",
    )
    found = answer.json()
    assert (answer.status_code, found["outcome"], "error" in found) == (200, "active", False), answer.text
    assert [(row["noderole"], row["state"]) for row in found["document"]["noderoles"]] == [(name, "ACTIVE")]
    assert answer.headers["location"] == deployment


def test_a_wait_for_work_that_fails_names_the_reason(api: ServedApi, node: str) -> None:
    name = f"plain@{node}"
    committed = api.ask("POST", f"/v1/deployments/{node.partition('.')[0]}/commit", {}, If_Match="*")
    assert committed.status_code == 202, committed.text
    becomes(api, name, State.ERROR, reason="disk full")
    answer = meanwhile(
        lambda: api.ask("POST", f"/v1/noderoles/{name}/retry?wait=25", {}, If_Match="*"),
        lambda: becomes(api, name, State.ERROR, reason="disk still full"),
        lambda: state_of(api, name) == "TODO",
    )
    found = answer.json()
    assert (answer.status_code, found["outcome"], found["error"]["error"]) == (200, "error", "InError")
    assert "disk still full" in found["error"]["detail"]


def test_a_wait_that_ends_before_the_work_answers_202(api: ServedApi, node: str) -> None:
    begun = time.monotonic()
    answer = api.ask("POST", f"/v1/deployments/{node.partition('.')[0]}/commit?wait=0.5", {}, If_Match="*")
    assert (answer.status_code, answer.headers["location"]) == (202, f"/v1/deployments/{node.partition('.')[0]}")
    assert 0.5 <= time.monotonic() - begun < 10
    assert "outcome" not in answer.json()


def test_a_request_for_nodes_is_watched_until_it_is_deleted(api: ServedApi) -> None:
    known = {row["name"] for row in api.ask("GET", "/v1/requests").json()["answer"]}

    def deleted(requests: list[str]) -> None:
        for each in requests:
            assert api.ask("POST", f"/v1/requests/{each}/delete?agreed=true", {}, If_Match="*").status_code == 200

    def mine() -> list[str]:
        listed = api.ask("GET", "/v1/requests").json()["answer"]
        return [row["name"] for row in listed if row["name"] not in known]

    answer = meanwhile(
        lambda: api.ask("POST", "/v1/requests?wait=25", {"labels": ["small"]}),
        lambda: deleted(mine()),
        lambda: bool(mine()),
    )
    assert (answer.status_code, answer.json()["outcome"]) == (200, "deleted"), answer.text
    assert answer.headers["location"].startswith("/v1/requests/")


def limited(api: ServedApi, node: str) -> str:
    """A token with limits by the deployment of the node, on which a noderole of another deployment is committed."""
    api.call("node/bind", {"nodes": [node], "roles": ["other"], "deployment": "system"})
    for deployment in ("system", node.partition(".")[0]):
        api.call("deployment/commit", {"name": deployment})
    api.call("noderole/propose", {"noderoles": [f"plain@{node}"]})
    return api.direct.token(role="operator", deployments=(node.partition(".")[0],))


def test_a_wait_of_a_token_with_limits_is_for_the_noderoles_within_them(api: ServedApi, node: str) -> None:
    token = limited(api, node)
    looked = api.ask("POST", "/v1/noderoles/wait-look", {"nodes": [node]}, token).json()["answer"]
    assert [row["noderole"] for row in looked["rows"]] == [f"plain@{node}"]
    answer = api.ask("POST", f"/v1/nodes/{node}/commit?wait=1", {}, token, If_Match="*")
    assert (answer.status_code, answer.headers["location"], "outcome" in answer.json()) == (
        202,
        f"/v1/nodes/{node}",
        False,
    )
    outside = api.ask("POST", "/v1/noderoles/wait-look", {"known": [f"other@{node}"]}, token)
    assert problem(outside)[0] == 404


def test_work_that_leaves_the_limits_of_a_token_is_not_deleted(api: ServedApi, node: str) -> None:
    token = limited(api, node)
    answer = meanwhile(
        lambda: api.ask("POST", f"/v1/nodes/{node}/commit?wait=2", {}, token, If_Match="*"),
        lambda: api.call("node/move", {"nodes": [node], "deployment": "system"}),
        lambda: state_of(api, f"plain@{node}") == "TODO",
    )
    assert (answer.status_code, "outcome" in answer.json()) == (202, False), answer.text


def test_a_token_that_is_revoked_during_a_wait_gets_the_answer_of_its_write_alone(api: ServedApi, node: str) -> None:
    token, name = api.direct.token(role="operator"), f"plain@{node}"

    def act() -> None:
        api.direct.perform(TokenRevoke(tokens=(token.split("_")[1],)))
        becomes(api, name, State.ACTIVE)

    answer = meanwhile(
        lambda: api.ask("POST", f"/v1/deployments/{node.partition('.')[0]}/commit?wait=20", {}, token, If_Match="*"),
        act,
        lambda: state_of(api, name) == "TODO",
    )
    assert (answer.status_code, answer.headers["location"].rpartition("/")[0]) == (202, "/v1/deployments"), answer.text
    assert name in {row["name"] for row in answer.json()["rows"]}
    assert not {"outcome", "document"} & answer.json().keys()


class TroubledDesk:
    """A desk with scripted results of its looks; after the last one ZooKeeper is away."""

    records = None

    def __init__(self, *results: object) -> None:
        self._results = list(results)

    def deadline(self) -> float:
        return time.monotonic() + 10.0

    async def run(self, call: object, deadline: float) -> Any:  # noqa: ARG002
        if not self._results:
            raise Unavailable("ZooKeeper is away")
        return self._results.pop(0)


@pytest.mark.parametrize(("looks", "outcome"), [((), None), ((1,), None), ((1, True), "deleted")])
def test_an_error_of_a_look_ends_no_wait(looks: tuple[int, ...], outcome: str | None) -> None:
    def look(number: int) -> Any:
        performed = Performed(answers=(number,), rows=(), dry_run=False)
        return number if number is True else Answered(performed=performed, zxid=1)

    shown = RequestShow(request="100-0000000001")
    work = longwork.LongWork(shown, lambda _: shown, lambda _: longwork.WorkEnd("deleted", None, "the document"))
    actor = Actor(id="0", token=Token(name="ann", role=TokenRole.VIEWER, digest="0" * 64), address="::1")
    desk: Any = TroubledDesk(*map(look, looks))
    ended = asyncio.run(awaited(desk, actor, work, 0.1, 1))
    assert (ended.outcome if ended else None) == outcome


def test_a_wait_is_for_long_work_alone_and_bounded(api: ServedApi, node: str) -> None:
    for path in (
        f"/v1/nodes/{node}/hold?wait=1",
        f"/v1/nodes/{node}/commit?wait=601",
        f"/v1/nodes/{node}/commit?wait=soon",
    ):
        assert problem(api.ask("POST", path, {"reason": "x"} if "hold" in path else {}, If_Match="*"))[0] == 422


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        (RolloutShow(rollout="lab/0000000001"), "/v1/rollouts/show?rollout=lab/0000000001"),
        (TasksHistory(run="lab/0000000001"), "/v1/task-runs/history?run=lab/0000000001"),
        (RequestShow(request="100-0000000001"), "/v1/requests/100-0000000001"),
        (NoderoleList(selector="tag:a b"), "/v1/noderoles?selector=tag:a+b"),
        (NoderoleList(), "/v1/noderoles"),
    ],
)
def test_the_address_of_a_read(operation: Operation[Any], path: str) -> None:
    assert location(operation) == path


def test_the_objects_that_show_work() -> None:
    def shown(operation: Operation[Any], answer: Any, rows: tuple[ChangeRow, ...] = (ROW,)) -> Any:
        work = longwork.begun(operation, Performed(answers=(answer,), rows=rows, dry_run=False))
        return None if work is None else location(work.shown)

    assert shown(ImageBuild(image="jammy"), BuildAsked(request=3)) == "/v1/images/jammy"
    key = Key("lab", "0000000001")
    assert shown(TasksRun(deployment="lab"), TaskRunBegun(key=key)) == "/v1/task-runs/history?run=lab/0000000001"
    assert shown(NodeCommit(nodes=("n1", "n2")), Committed(chosen=("n1", "n2"))) == "/v1/noderoles?selector=name:n1,n2"
    assert shown(NodeCommit(selector="tag:web"), Committed(chosen=("n1", "n2"))) == "/v1/noderoles?selector=tag:web"
    many = tuple(f"n{number}" for number in range(60))
    assert shown(NodeCommit(nodes=many), Committed(chosen=many)) == "/v1/noderoles"
    assert shown(NodeCommit(nodes=many), Committed(chosen=many), ()) is None


def test_a_build_that_failed_ends_the_wait_with_its_reason() -> None:
    work = longwork.begun(
        ImageBuild(image="jammy"), Performed(answers=(BuildAsked(request=3),), rows=(ROW,), dry_run=False)
    )
    assert work is not None
    going = BuildProgress(outcome=None, sentence="it is being built")
    assert work.end(BuildSeen(None, going, {}, None)) is None
    ended = work.end(BuildSeen(None, BuildProgress(outcome="failed", sentence="it failed"), {}, None))
    assert ended is not None
    assert (ended.outcome, str(ended.error)) == ("failed", "jammy: it failed")


def test_openapi_describes_202_and_wait_for_long_work_alone() -> None:
    found = documents.openapi()["paths"]
    for row in ROUTES:
        described = found[row.path][row.method.lower()]
        long = longwork.begins(OPERATIONS[row.operation])
        assert ("202" in described["responses"]) == long, row
        assert ("wait" in {each["name"] for each in described["parameters"] if each["in"] == "query"}) == long, row

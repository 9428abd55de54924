"""Saved plans: one person plans, a second one carries out; directly on ZooKeeper and at a server of the API alike."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import httpx
import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from nodepool_ocb.cli.kit import walking
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.nodes.reading import NodeShow
from nodepool_ocb.operations.plans.saved import SavedPlan
from nodepool_ocb.remote.tokens import VARIABLE
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh
from tests.remote.verbs import FILES, LINES

#: Verbs with a dry run and without plans, with the reason.
WITHOUT_PLANS: Final = {
    "acl init": "it concerns the users of the caller's configuration",
    "init": "it makes the cluster",
    "lease run": "it runs a command on the caller's host",
    "restored": "all servers are stopped meanwhile",
    "token create": "its answer is a secret",
}


class Person:
    """A person on the way that the test takes: with a token at the server, or directly under a login name."""

    def __init__(self, served: ServedApi, name: str, way: str, patch: pytest.MonkeyPatch) -> None:
        self.name, self.author = name, f"{name}@127.0.0.1" if way == "--api" else name
        self._options = (way, served.address if way == "--api" else served.settings.hosts)
        self._variables = {"USER": name, "LOGNAME": name, VARIABLE: served.direct.token(name=name, role="admin")}
        self._patch = patch

    def run(self, words: str) -> Result:
        for variable, value in self._variables.items():
            self._patch.setenv(variable, value)
        return CliRunner().invoke(cli, [*self._options, *shlex.split(words)], prog_name="nodepool-ocb")


class Desk:
    """Two persons, a node of their own, and the place of their plans."""

    def __init__(self, served: ServedApi, folder: Path, way: str, patch: pytest.MonkeyPatch) -> None:
        self.served, self.way = served, way
        patch.delenv("SUDO_USER", raising=False)
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        patch.setattr("nodepool_ocb.cli.kit.performing.me", lambda: os.environ["USER"])
        self.ann, self.bob = (Person(served, name, way, patch) for name in ("ann", "bob"))
        self.file = folder / "plan.yaml"
        self.node = f"{folder.name.replace('_', '-').lower()}.example.com"
        assert self.ann.run(f"node create {self.node} --rack r1 --tag {self.tag}").exit_code == 0

    @property
    def tag(self) -> str:
        return self.node.partition(".")[0]

    @property
    def rack(self) -> Any:
        return self.served.direct.perform(NodeShow(node=self.node)).record.rack

    def plan(self, words: str, file: Path | None = None) -> SavedPlan:
        """The plan that ann saves."""
        ended = self.ann.run(f"{words} --dry-run --save {file or self.file}")
        assert ended.exit_code == 10, ended.output
        return self.read()

    def read(self) -> SavedPlan:
        return msgspec.convert(yaml.safe_load(self.file.read_text()) | {}, SavedPlan, strict=False)

    def edit(self, change: Callable[[dict[str, Any]], Any], *, whole: bool = False) -> None:
        """Change the file, as a text editor does; ``whole``: its digest is made anew."""
        found = yaml.safe_load(self.file.read_text())
        change(found)
        for key in ("at", "expires"):
            found[key] = found[key] if isinstance(found[key], str) else found[key].isoformat().replace("+00:00", "Z")
        if whole:
            found = msgspec.to_builtins(msgspec.convert(found, SavedPlan).sealed())
        self.file.write_text(json.dumps(found))


@pytest.fixture(params=["--zookeeper", "--api"])
def desk(api: ServedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Desk:
    return Desk(api, tmp_path, request.param, monkeypatch)


@pytest.fixture
def direct_desk(api: ServedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(api, tmp_path, "--zookeeper", monkeypatch)


def test_a_plan_of_one_person_is_carried_out_by_another_with_the_rows_that_it_shows(desk: Desk) -> None:
    ended = desk.ann.run(f"node set {desk.node} rack=r7 --dry-run --save {desk.file} --reason moved")
    assert (ended.exit_code, "rack: r1 -> r7" in ended.stdout) == (10, True), ended.output
    plan = desk.read()
    assert (plan.operation, plan.fields["assignments"], plan.reason) == ("node/set", ["rack=r7"], "moved")
    assert (plan.author.startswith("ann@"), (plan.expires - plan.at).total_seconds()) == (True, 86400.0)
    assert [*plan.records] == [f"/ocb/nodes/{desk.node}"]
    shown = desk.bob.run(f"node set --plan {desk.file} --dry-run")
    assert (shown.exit_code, "rack: r1 -> r7" in shown.stdout, "plan of ann@" in shown.stderr) == (10, True, True)
    assert desk.rack == "r1"
    done = desk.bob.run(f"node set --plan {desk.file} --reason approved -o json")
    assert done.exit_code == 0, done.output
    assert [row["name"] for row in json.loads(done.stdout)["changes"]] == [desk.node]
    entry = desk.served.direct.perform(HistoryRead(names=(desk.node,))).rows[-1].record
    assert (desk.rack, entry.login) == ("r7", "bob")
    assert entry.reason == f"approved; plan said to be of {plan.author}: moved"
    again = desk.bob.run(f"node set --plan {desk.file}")
    assert (again.exit_code, "was carried out at 2" in again.stderr) == (4, True), again.output


def test_a_plan_is_refused_if_a_record_moved_and_names_the_change_between(desk: Desk) -> None:
    desk.plan(f"node set {desk.node} rack=r7")
    assert desk.ann.run(f"node set {desk.node} labels.zone=b --reason swap").exit_code == 0
    for more in ("", " --dry-run"):
        refused = desk.bob.run(f"node set --plan {desk.file}{more}")
        assert refused.exit_code == 4, refused.output
        assert f"node {desk.node} has changed; its newest change is node set by ann@" in refused.stderr
        assert "reason: swap (entry " in refused.stderr
        assert "nothing was written; make the dry run again" in refused.stderr
    assert desk.rack == "r1"


def test_a_plan_by_selector_is_refused_if_another_node_is_meant_since(direct_desk: Desk) -> None:
    desk = direct_desk
    desk.plan(f"node hold -l tag:{desk.tag} --reason disk")
    assert desk.ann.run(f"node create more-{desk.node} --tag {desk.tag}").exit_code == 0
    refused = desk.bob.run(f"node hold --plan {desk.file}")
    assert (
        refused.exit_code,
        f"node more-{desk.node} has changed; its newest change is node create" in refused.stderr,
    ) == (4, True)
    assert desk.served.direct.perform(NodeShow(node=desk.node)).record.hold is None


#: An edit of a plan → the code of the refusal, and words of it.
EDITS: Final[Mapping[str, tuple[Callable[[dict[str, Any]], Any], int, str]]] = {
    "another operation": (lambda plan: plan.update(operation="node/hold"), 1, "operation: this is a plan of node hold"),
    "a field": (lambda plan: plan["fields"].update(assignments=["rack=r8"]), 1, "digest: this plan was changed"),
    "a row": (lambda plan: plan["rows"][0].update(name="n9"), 1, "digest: this plan was changed"),
    "an unknown key": (lambda plan: plan.update(colour="red"), 1, "plan.yaml:1: "),
    "an unknown key of a row": (lambda plan: plan["rows"][0].update(colour="red"), 1, "rows[0].colour: a plan has no"),
    "a wrong type": (lambda plan: plan["records"].update({"/ocb/nodes/x": "1"}), 1, "Expected `int`"),
    "another form": (lambda plan: plan.update(plan=2), 1, "plan: "),
    "no time": (lambda plan: plan.update(at="yesterday"), 1, "at: Invalid"),
}
#: The same of edits whose author makes the digest anew.
FORGED: Final[Mapping[str, tuple[Callable[[dict[str, Any]], Any], int, str]]] = {
    "a field": (lambda plan: plan["fields"].update(assignments=["rack=r8"]), 4, "other changes of the same records"),
    "a row": (lambda plan: plan["rows"][0].update(name="n9"), 4, "other changes of the same records"),
    "no row": (lambda plan: plan.update(rows=[]), 4, "other changes of the same records"),
    "no record": (lambda plan: plan.update(records={}), 4, "no longer holds"),
    "another cluster": (lambda plan: plan.update(cluster="x"), 9, "is for cluster x"),
    "an unknown field": (
        lambda plan: plan["fields"].update(colour="red"),
        1,
        "fields: node set: there is no field colour",
    ),
    "a later end": (
        lambda plan: plan.update(at="2020-01-01T00:00:00Z", expires="2099-01-01T00:00:00Z"),
        4,
        "has expired",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_plan_that_was_edited_is_refused(direct_desk: Desk, edit: str) -> None:
    change, code, words = EDITS[edit]
    direct_desk.plan(f"node set {direct_desk.node} rack=r7")
    direct_desk.edit(change)
    refused = direct_desk.bob.run(f"node set --plan {direct_desk.file}")
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output
    assert str(direct_desk.file) in refused.stderr
    assert direct_desk.rack == "r1"


@pytest.mark.parametrize("edit", FORGED)
def test_a_forged_plan_does_no_more_than_its_rows_say(desk: Desk, edit: str) -> None:
    change, code, words = FORGED[edit]
    desk.plan(f"node set {desk.node} rack=r7")
    desk.edit(change, whole=True)
    refused = desk.bob.run(f"node set --plan {desk.file}")
    assert (refused.exit_code, words in refused.stderr) == (code, True), refused.output
    assert desk.rack == "r1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has 0 documents"),
        ("a: 1\n---\nb: 2\n", "has 2 documents"),
        ("[" * 60 + "]" * 60, "nested deeper"),
        ("plan: *a\n", "alias"),
        ("- 1\n", "Expected `object`"),
        ("plan: 1\nplan: 2\n", "twice"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_its_name(direct_desk: Desk, text: str, words: str) -> None:
    direct_desk.file.write_text(text)
    refused = direct_desk.bob.run(f"node set --plan {direct_desk.file}")
    assert (refused.exit_code, words in refused.stderr, str(direct_desk.file) in refused.stderr) == (1, True, True), (
        refused.output
    )


def test_a_moment_of_a_plan_moves_on_with_the_clock_and_a_forged_one_does_not_pass(direct_desk: Desk) -> None:
    desk = direct_desk
    desk.plan(f"node hold {desk.node} --for 2h --reason disk")
    held = next(field for field in desk.read().rows[0].fields or () if field.field == "hold/until")

    def later(plan: dict[str, Any]) -> None:
        for field in plan["rows"][0]["fields"]:
            field["new"] = field["new"] - 3600.0 if field["field"] == "hold/until" else field["new"]

    text = desk.file.read_text()
    desk.edit(later, whole=True)
    assert desk.bob.run(f"node hold --plan {desk.file}").exit_code == 4
    desk.file.write_text(text)
    done = desk.bob.run(f"node hold --plan {desk.file}")
    assert done.exit_code == 0, done.output
    hold = desk.served.direct.perform(NodeShow(node=desk.node)).record.hold
    assert hold.until >= held.new


def test_a_plan_of_an_operation_without_transactions_shows_its_row(desk: Desk) -> None:
    plan = desk.plan("request create --label small --count 2")
    assert (plan.rows, plan.answers[0]["row"]["name"]) == ((), "small")
    done = desk.bob.run(f"request create --plan {desk.file} -o json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["changes"]
    request = row["name"]
    for words in ("", " --dry-run"):
        again = desk.ann.run(f"request create --plan {desk.file}{words}")
        assert (again.exit_code, f"the plan of {plan.author} was carried out at 2" in again.stderr) == (4, True)
    with Session(desk.served.settings) as session:
        numbers = [int(name.rpartition("-")[2]) for name in session.children(paths.REQUESTS) or ()]
    assert max(numbers) == int(request.rpartition("-")[2])


def test_a_plan_of_many_nodes_is_compared_as_a_whole_before_the_first_is_made(direct_desk: Desk) -> None:
    desk = direct_desk
    desk.plan(f"node create {desk.tag}-{{}}.example.com --count 3")
    assert desk.ann.run(f"node create {desk.tag}-3.example.com").exit_code == 0
    refused = desk.bob.run(f"node create --plan {desk.file}")
    assert refused.exit_code == 4, refused.output
    assert f"it would now create node {desk.tag}-4.example.com" in refused.stderr
    assert f"it no longer concerns node {desk.tag}-3.example.com" in refused.stderr
    assert desk.bob.run(f"node show {desk.tag}-1.example.com").exit_code == 3


def test_save_and_plan_are_refused_beside_other_words(direct_desk: Desk) -> None:
    desk = direct_desk
    assert desk.ann.run(f"node set {desk.node} rack=r7 --save {desk.file}").exit_code == 2
    assert not desk.file.exists()
    desk.plan(f"node set {desk.node} rack=r7")
    beside = desk.bob.run(f"node set {desk.node} --plan {desk.file}")
    assert (beside.exit_code, "takes its arguments from the file; leave out" in beside.stderr) == (2, True), (
        beside.output
    )
    twice = desk.ann.run(f"node set {desk.node} rack=r8 --dry-run --save {desk.file}")
    assert (twice.exit_code, "exists already" in twice.stderr) == (1, True)
    nothing = desk.ann.run(f"node set {desk.node} rack=r1 --dry-run --save {desk.file}.2")
    assert (nothing.exit_code, "no plan is saved" in nothing.stderr, desk.rack) == (0, True, "r1")


def test_every_verb_with_a_dry_run_saves_and_carries_out_plans() -> None:
    root = click.Context(cli, info_name="nodepool-ocb")
    options = {title: {name for param in verb.params for name in param.opts} for title, verb in walking.verbs(root)}
    dry = {title for title, names in options.items() if "--dry-run" in names}
    assert {title for title in dry if {"--save", "--plan"} <= options[title]} == dry - WITHOUT_PLANS.keys()
    assert {title for title, names in options.items() if "--plan" in names} <= dry


def test_an_http_client_saves_a_plan_and_carries_it_out(api: ServedApi) -> None:
    api.call("node/create", {"name": "curled.example.com", "node": {}})
    fields = {"nodes": ["curled.example.com"], "assignments": ["rack=r3"]}
    dry = api.call("node/set", fields, dry_run=True, save=True)
    plan = next(line["plan"] for line in dry if "plan" in line)
    assert (plan["by"], plan["host"], plan["rows"][0]["name"]) == ("ann", "127.0.0.1", "curled.example.com")
    bob = api.direct.token(name="bob", role="operator")
    assert problem(api.ask("POST", "/v1/operations/node/hold", {"plan": plan}, bob))[0] == 422
    idle = next(
        line["plan"]
        for line in api.call("node/unavailable", {"nodes": fields["nodes"]}, dry_run=True, save=True)
        if "plan" in line
    )
    other = api.ask("POST", "/v1/operations/node/available", {"plan": idle}, bob)
    assert (problem(other)[0], "this is a plan of node/unavailable" in other.text) == (422, True)
    both = api.ask("POST", "/v1/operations/node/set", {"plan": plan, "fields": fields}, bob)
    assert problem(both)[0] == 422
    assert problem(api.ask("POST", "/v1/operations/node/set", {"plan": plan | {"by": "eve"}}, bob))[0] == 422
    viewer = api.direct.token(name="vic", role="viewer")
    assert problem(api.ask("POST", "/v1/operations/node/set", {"plan": plan}, viewer))[0] == 403
    late = next(
        line["plan"]
        for line in api.call("node/set", fields | {"assignments": ["rack=r4"]}, dry_run=True, save=True)
        if "plan" in line
    )
    done = api.ask("POST", "/v1/operations/node/set", {"plan": plan}, bob)
    assert done.status_code == 200, done.text
    again = api.ask("POST", "/v1/operations/node/set", {"plan": plan}, bob)
    assert (problem(again), "was carried out" in again.text) == ((409, "conflict", "Conflict"), True)
    stale = api.ask("POST", "/v1/operations/node/set", {"plan": late}, bob)
    assert problem(stale) == (412, "version-differs", "VersionDiffers")
    assert "node set by bob@127.0.0.1" in stale.json()["detail"]


def forged(plan: Mapping[str, Any], **values: Any) -> Any:
    """The plan with other values, and a digest of them."""
    return msgspec.to_builtins(msgspec.convert({**plan, **values}, SavedPlan).sealed())


def test_a_forged_plan_tells_nothing_of_records_outside_its_decision_or_the_limits(api: ServedApi) -> None:
    for name in ("forged", "other"):
        api.call("deployment/create", {"name": name})
        api.call("node/create", {"name": f"{name}.example.com", "node": {"deployment": name}})
        api.call("node/set", {"nodes": [f"{name}.example.com"], "assignments": ["rack=r9"]}, reason=f"WHY-{name}")
    limited = api.direct.token(name="lim", role="operator", deployments=("forged",))
    whole = api.direct.token(name="bob", role="operator")
    fields = {"nodes": ["forged.example.com"], "reason": "disk"}
    plan = next(
        line["plan"] for line in api.call("node/hold", fields, limited, dry_run=True, save=True) if "plan" in line
    )

    def carry_out(token: str, **values: Any) -> httpx.Response:
        return api.ask("POST", "/v1/operations/node/hold", {"plan": forged(plan, **values)}, token)

    for outside in ("/ocb/nodes/other.example.com", f"/ocb/tokens/{whole.split('_')[1]}"):
        for records in ({outside: 1}, {**plan["records"], outside: 1}):
            answer = carry_out(whole, records=records)
            assert (problem(answer)[0], "WHY-other" in answer.text) == (412, False), answer.text
            refused = carry_out(limited, records=records)
            assert (problem(refused)[0], "WHY-" in refused.text, "newest change" in refused.text) == (412, False, False)
    assert "WHY-forged" in carry_out(whole, records={"/ocb/nodes/forged.example.com": 1}).text
    far = "9999-12-31T23:59:59-14:00"
    for values in ({"records": {"/ocb": 1}}, {"at": far, "expires": far}, {"by": "root\x1b[2J"}, {"by": "B" * 900_000}):
        assert problem(carry_out(limited, **values))[0] == 422
    done = carry_out(limited, by="root", host="boss", reason="approved by CEO")
    assert done.status_code == 200, done.text
    entry = api.direct.perform(HistoryRead(names=("forged.example.com",))).rows[-1].record
    assert (entry.login, entry.reason) == ("lim", "disk; plan said to be of root@boss: approved by CEO")


def test_a_token_and_a_local_operation_are_in_no_plan(api: ServedApi) -> None:
    refused = api.ask(
        "POST",
        "/v1/operations/token/create",
        {"fields": {"name": "x", "role": "viewer"}, "dry_run": True, "save": True},
    )
    assert problem(refused)[0] == 422
    wet = api.ask("POST", "/v1/operations/node/hold", {"fields": {"nodes": ["n"], "reason": "x"}, "save": True})
    assert problem(wet)[0] == 422


def test_a_plan_in_json_reads_as_the_same_plan(direct_desk: Desk) -> None:
    file = direct_desk.file.with_suffix(".json")
    assert direct_desk.ann.run(f"node set {direct_desk.node} rack=r7 --dry-run --save {file}").exit_code == 10
    plan = msgspec.json.decode(file.read_bytes(), type=SavedPlan)
    assert replace(plan, digest="").sealed() == plan
    assert direct_desk.bob.run(f"node set --plan {file}").exit_code == 0


@pytest.mark.long
def test_each_verb_is_carried_out_by_its_plan(
    zookeeper: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of ``verbs``, one after the other on one tree: each that would change something is saved, and carried out."""
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('plans')}")
    with Session(settings) as session:
        clusters.bootstrap(session)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    writing = {each.__name__: each for each in registry.remote().values() if each.writes}
    ended: dict[str, tuple[int, str]] = {}
    for number, (name, words) in enumerate(LINES.items()):
        line = words.replace(" --dry-run", "").replace(" --wait --timeout 0", "")
        if name not in writing:
            continue
        dry = _run(settings, f"{line} --dry-run --save plan-{number}.yaml")
        if dry.exit_code == 10:
            title = " ".join(line.split()[: len(writing[name].title().split())])
            done = _run(settings, f"{title} --plan plan-{number}.yaml{' --yes' if ' --yes' in line else ''}")
            ended[name] = done.exit_code, done.output
        else:
            _run(settings, line)
    assert {name: end for name, end in ended.items() if end[0] != 0} == {}
    assert len(ended) > 30, [*ended]


def _run(settings: ZooKeeperSettings, words: str) -> Result:
    return CliRunner().invoke(cli, ["--zookeeper", settings.hosts, *shlex.split(words)], prog_name="nodepool-ocb")

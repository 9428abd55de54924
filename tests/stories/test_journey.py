"""From documents to noderoles, by commands alone; and what each command answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.cli.main import NOUNS
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Create, Daemon, Delete, Json, LockOwner, Node, NodeRole, Role, Set, State
from nodepool_ocb.rollout import strategy
from nodepool_ocb.rollout.plan import begin
from nodepool_ocb.store import rollouts
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import Locks
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.store.world.load import load_world
from tests.fixtures.commands import BARCLAMP, Ocb

Ask = Callable[..., Json]
TOP = "top@n1.example.com"
N1 = "n1.example.com"


def _states(ask: Ask) -> dict[str, str]:
    return {row["noderole"].split("@")[0]: row["state"] for row in ask("noderole", "list")}


@pytest.mark.usefixtures("world")
def test_bind_then_commit(ask: Ask) -> None:
    assert _states(ask) == {"base": "PROPOSED", "middle": "PROPOSED", "top": "PROPOSED"}
    ask("deployment", "commit", "lab")
    assert _states(ask) == {"base": "TODO", "middle": "BLOCKED", "top": "BLOCKED"}
    assert ask("deployment", "show", "lab")["state"] == "COMMITTED"


@pytest.mark.usefixtures("world")
def test_a_dry_run_tells_and_writes_nothing(ask: Ask, ocb: Ocb) -> None:
    document = ask("node", "commit", N1, "--dry-run", exit_code=10)
    assert {row["name"] for row in document["changes"]} == {f"{role}@{N1}" for role in ("base", "middle", "top")}
    assert _states(ask)["top"] == "PROPOSED"
    ocb("node", "commit", N1)
    assert ask("node", "commit", N1, "--dry-run")["changes"] == []


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "line",
    [
        "status", "role list", "role show top", "node list", f"node show {N1}", "deployment list",
        "deployment show lab",
        "noderole list", f"noderole show {TOP}", f"noderole explain {TOP}", "graph", f"graph --around {TOP}",
        "daemon list", "lock list", "config check", "completion bash", f"node set {N1} tags=a,b rack=r1",
        f"node set {N1} labels.a=b hints.mac=00:11", f"node available {N1}", f"noderole commit {TOP}",
        f"noderole set middle@{N1} middle-size=3", "deployment set lab middle middle/size=2", "deployment propose lab",
        f"node unavailable {N1}", f"noderole unbind {TOP} --yes", f"node delete {N1} --yes", "noderole retry --failed",
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["json", "yaml", "name", "table"])
def test_every_command_answers_in_every_form(ocb: Ocb, line: str, form: str) -> None:
    answer = ocb(*line.split(), "-o", form)
    assert answer.exit_code == 0, answer.output
    if form == "json":
        json.loads(answer.stdout)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        ("node show n2.example.com", 3, "did you mean `n1.example.com`?"),
        ("role show tpo", 3, "did you mean `top`?"),
        ("node show n1", 3, f"did you mean `{N1}`?"),
        ("noderole show top@n1", 3, f"did you mean `{TOP}`?"),
        (f"noderole cancel {TOP}", 4, f"nodepool-ocb noderole explain {TOP}"),
        (f"noderole refresh {TOP}", 4, f"nodepool-ocb noderole explain {TOP}"),
        ("deployment wait labb", 3, "did you mean `lab`?"),
        (f"noderole explain tup@{N1}", 3, f"did you mean `{TOP}`?"),
        ("noderole show top", 3, "ROLE@FQDN"),
        (f"node bind {N1} tpo", 3, "did you mean `top`?"),
        ("noderole wait nothing@nowhere", 3, "does not exist"),
        (f"node create {N1}", 4, "exists already"),
        (f"node bind {N1} other", 4, "conflicts"),
        ("deployment create lab", 4, "exists already"),
        ("deployment delete lab", 4, "still holds"),
        (f"noderole retry {TOP}", 4, "PROPOSED"),
        (f"noderole log {TOP}", 3, "has not run"),
        (f"node delete {N1}", 2, "--yes"),
        (f"noderole unbind {TOP}", 2, "--yes"),
        (f"noderole set {TOP} a/b=nojson", 1, "not JSON"),
        (f"noderole set middle@{N1} middle/size=[]", 1, "middle-size"),
        (f"noderole set middle@{N1} midle-size=1", 3, "did you mean"),
        (f"node set {N1} colour=red", 1, "no field 'colour'"),
        (f"node set {N1} alive=maybe", 1, "true or false"),
        ("node create nodot", 1, "fully qualified"),
        ("barclamp import /nowhere.yml", 3, "does not exist"),
        (f"noderole wait {TOP}", 6, "is PROPOSED"),
    ],
)
def test_refusals(ocb: Ocb, line: str, exit_code: int, said: str) -> None:
    answer = ocb(*line.split())
    assert answer.exit_code == exit_code, answer.output
    assert said in answer.stderr
    assert "Traceback" not in answer.output


@pytest.mark.usefixtures("world")
def test_no_small_line_gives_a_traceback(ocb: Ocb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # `man DIR` writes its pages there
    words = ["", "-o", "json", "--help", N1, TOP, "a=b", "--yes", "--dry-run", "@", "nothing"]
    verbs = ["", "list", "show", "set", "check", "import", "delete", "explain"]
    for noun in NOUNS:
        for number, verb in enumerate(verbs):
            for extra in (words[number % len(words)], words[(number + 5) % len(words)]):
                line = [word for word in (noun, verb, extra) if word]
                if line == ["man"]:
                    continue  # it writes below /usr/local
                answer = ocb(*line)
                assert answer.exit_code in (0, 1, 2, 3, 4, 10), (noun, verb, extra, answer.output)
                assert "Traceback" not in answer.output
                assert "error: unexpected" not in answer.output, (noun, verb, extra, answer.output)


@pytest.mark.parametrize(
    ("state", "said"),
    [(State.ERROR, "explain"), (State.ACTIVE, "log"), (State.TODO, "propose"), (State.BLOCKED, "propose")],
)
def test_a_cancel_where_nothing_runs_names_the_command_that_fits(
    ocb: Ocb, becomes: Callable[..., None], state: State, said: str
) -> None:
    becomes(TOP, state)
    answer = ocb("noderole", "cancel", TOP)
    assert answer.exit_code == 4, answer.output
    assert f"{TOP} is {state}; only running noderoles can be cancelled; " in answer.stderr
    assert f"nodepool-ocb noderole {said} {TOP}" in answer.stderr


def test_a_dry_run_of_redeploy_asks_nothing_and_writes_nothing(ask: Ask, becomes: Callable[..., None]) -> None:
    becomes(f"base@{N1}", State.ACTIVE, once="done")
    document = ask("noderole", "redeploy", f"base@{N1}", "--dry-run", exit_code=10)
    assert [row["name"] for row in document["changes"]] == [f"base@{N1}"]
    assert _states(ask)["base"] == "ACTIVE"


@pytest.mark.usefixtures("world")
def test_set_keeps_types_and_replaces_only_the_place(ask: Ask) -> None:
    ask("noderole", "set", TOP, 'a/text="0755"', "a/number=7")
    ask("noderole", "set", TOP, "a/more=[1, true]")
    assert ask("noderole", "show", TOP)["attributes"]["user"] == {"a": {"text": "0755", "number": 7, "more": [1, True]}}


@pytest.mark.usefixtures("world")
def test_a_node_that_is_set_dead_takes_its_noderoles_back(ask: Ask, becomes: Callable[..., None]) -> None:
    ask("deployment", "commit", "lab")
    becomes(f"base@{N1}", State.ACTIVE)
    ask("node", "set", N1, "alive=true")
    ask("node", "set", N1, "alive=false")
    assert _states(ask)["base"] == "TODO"


def test_delete_leaves_nothing(world: Session, ask: Ask) -> None:
    ask("node", "delete", N1, "--yes")
    assert world.get(paths.node(N1)) is None
    ask("deployment", "delete", "lab", "--yes")
    assert world.get(paths.deployment("lab")) is None


@pytest.mark.usefixtures("world")
def test_default_address_is_the_name(ask: Ask) -> None:
    assert ask("node", "show", N1)["addresses"] == [N1]
    ask("node", "create", "v.example.com", "--virtual")
    shown = ask("node", "show", "v.example.com")
    assert shown["alive"] is True
    assert shown["addresses"] == []


@pytest.mark.usefixtures("zk_session")
def test_a_whole_import_says_every_problem_and_writes_nothing(ocb: Ocb, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "slips.yml"
    slips = {"jig: noop, conflicts": "jg: noop, conflicts", "requires: [base]": "requires: 7"}
    text = BARCLAMP
    for right, wrong in slips.items():
        text = text.replace(right, wrong)
    file.write_text(text)
    answer = ocb("barclamp", "import", str(file), "--whole")
    assert answer.exit_code == 1
    assert "slips.yml:11: roles[other].jg" in answer.stderr
    assert "slips.yml:7: roles[middle].requires" in answer.stderr
    assert ask("role", "list") == []


@pytest.mark.usefixtures("world")
def test_import_twice_changes_nothing(ask: Ask, tmp_path: Path) -> None:
    assert ask("barclamp", "import", str(tmp_path / "chain.yml"), "--dry-run")["changes"] == []


@pytest.mark.usefixtures("world")
def test_status_puts_errors_first(ask: Ask, ocb: Ocb, becomes: Callable[..., None]) -> None:
    ask("deployment", "commit", "lab")
    becomes(f"base@{N1}", State.ERROR, reason="disk full")
    document = ask("status")
    assert next(iter(document["noderoles"])) == "ERROR"
    assert document["errors"][0]["reason"] == "disk full"
    assert [node["name"] for node in document["nodes"]["not_alive"]] == [N1]
    assert "disk full" in ocb("status").stdout


def test_undecodable_records_are_shown_and_stop_no_other_work(world: Session, ask: Ask) -> None:
    znode = world.get(paths.noderole("top", N1))
    assert znode is not None
    world.commit([Set(znode.path, ["no", "record"], znode.version)])
    assert [each["path"] for each in ask("status")["quarantined"]] == [znode.path]
    assert "top" not in _states(ask)


def _spoil(session: Session, path: str) -> None:
    znode = session.get(path)
    assert znode is not None
    session.commit([Set(path, {"schema": 2}, znode.version)])


#: A command, and the records each of which it must not decide without.
NEAR = {
    f"node bind {N1} other": [paths.role("top"), paths.node(N1), paths.deployment("lab"), paths.noderole("top", N1)],
    "node create n2.example.com --deployment lab": [paths.role("top"), paths.deployment("lab")],
    f"node commit {N1}": [paths.node(N1), paths.noderole("base", N1)],
    f"node delete {N1} --yes": [paths.node(N1), paths.role("base"), paths.noderole("top", N1)],
    f"node set {N1} rack=r1": [paths.node(N1)],
    f"noderole commit {TOP}": [paths.noderole("top", N1), paths.noderole("middle", N1)],
    f"noderole unbind {TOP} --yes": [paths.noderole("top", N1), paths.noderole("base", N1), paths.node(N1)],
    f"noderole wait {TOP}": [paths.noderole("top", N1)],
    "deployment commit lab": [paths.deployment("lab"), paths.noderole("base", N1), paths.node(N1)],
    "deployment create lab": [paths.deployment("lab")],
    "deployment propose lab": [paths.deployment("lab")],
    "deployment delete lab --yes": [paths.deployment("lab"), paths.noderole("top", N1)],
    "deployment set lab top a/b=1": [paths.deployment_role("lab", "top"), paths.role("top")],
    "barclamp import chain.yml": [paths.role("base")],
    "rollout start --default --deployment lab": [paths.node(N1), paths.noderole("top", N1)],
}


@pytest.mark.parametrize(("line", "path"), [(line, path) for line, near in NEAR.items() for path in near])
def test_what_would_be_decided_without_an_unreadable_record_is_refused_and_names_it(
    world: Session, ocb: Ocb, line: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _spoil(world, path)
    before = _versions(world)
    answer = ocb(*line.split())
    assert answer.exit_code == 4, answer.output
    assert f"error: the record {path} cannot be read" in answer.stderr
    assert _versions(world) == before, "nothing was written"


def _versions(session: Session) -> set[Delete]:
    """Every znode with its version, but for the one that tells the time."""
    return {each for each in removal(session, paths.ROOT) if each.path != paths.CLOCK}


def test_explain_names_the_record_that_cannot_be_read(world: Session, ask: Ask, becomes: Callable[..., None]) -> None:
    ask("deployment", "commit", "lab")
    becomes(f"base@{N1}", State.ACTIVE)
    becomes(f"middle@{N1}", State.ACTIVE)
    becomes(TOP, State.TODO)
    _spoil(world, paths.noderole("middle", N1))
    reasons = ask("noderole", "explain", TOP)["reasons"]
    assert ("UNREADABLE", paths.noderole("middle", N1)) in {(each["code"], each["subject"]) for each in reasons}
    assert not {"PARENT_WAITING", "PARENT_ERROR"} & {each["code"] for each in reasons}


def test_explain_tells_ages_by_the_clock_of_the_session(
    world: Session, ocb: Ocb, becomes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    becomes(TOP, State.ERROR, reason="it broke")
    vertex = load_world(world).vertex(TOP)
    assert vertex is not None
    now = world.now()
    world.commit([Set(paths.noderole("top", N1), replace(vertex.record, since=now - 100.0), vertex.version)])
    monkeypatch.setattr(time, "time", lambda: now + 86400.0 * 365)
    answer = ocb("noderole", "explain", TOP)
    assert f"{TOP} is ERROR (since 1m" in answer.stdout


@pytest.mark.parametrize("owner", ["middle", "top"])
def test_explain_names_the_attributes_that_cannot_be_read(
    world: Session, ask: Ask, becomes: Callable[..., None], owner: str
) -> None:
    ask("deployment", "commit", "lab")
    for name, state in ((f"base@{N1}", State.ACTIVE), (f"middle@{N1}", State.ACTIVE), (TOP, State.TODO)):
        becomes(name, state)
    path = paths.user(owner, N1)
    world.commit([Create(path, {})])
    world._client.set(path, b"[1]")
    reasons = ask("noderole", "explain", TOP)["reasons"]
    assert ("UNREADABLE", path) in {(each["code"], each["subject"]) for each in reasons}


def test_status_names_each_hook_whose_code_no_annealer_has_once(world: Session, ask: Ask, ocb: Ocb) -> None:
    daemon = Daemon(host="h", pid=1, version="0", started=1.0, code=("other",))
    world.ensure(paths.daemons("annealer"))
    world.commit([Create(paths.daemon("annealer", "a"), daemon, ephemeral=True)])
    world.commit([Create(paths.role("watched"), Role(barclamp="b", jig="noop", hooks=("on_active", "on_node_create")))])
    for fqdn in ("w1.example.com", "w2.example.com"):
        world.commit([Create(paths.node(fqdn), Node(hooks=("on_node_create",))), Create(paths.noderoles(fqdn))])
        record = NodeRole.of(state=State.ACTIVE, since=1.0, hooks=("on_active",))
        world.commit([Create(paths.noderole("watched", fqdn), record)])
    missing = ask("status")["hooks_without_code"]
    assert missing == [
        {"role": "watched", "hook": "on_active", "waiting": 2},
        {"role": "watched", "hook": "on_node_create", "waiting": 2},
    ]
    assert "no annealer has the code of a hook" in ocb("status").stderr


@pytest.mark.usefixtures("world")
def test_graph_has_the_edges_of_the_parents(ask: Ask, ocb: Ocb) -> None:
    document = ask("graph", "--around", TOP)
    assert [f"base@{N1}", f"middle@{N1}"] in document["edges"]
    assert f'"middle@{N1}" -> "{TOP}"' in ocb("graph").stdout
    assert ocb("graph", "--format", "mermaid").stdout.startswith("flowchart LR")
    assert json.loads(ocb("graph", "--format", "json").stdout) == document


def test_a_stale_decision_is_made_again(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from nodepool_ocb.cli.kit.performing import performer as performer_of_command
    from nodepool_ocb.operations import performer

    monkeypatch.setattr(performer, "LONGEST_PAUSE_SECONDS", 0.02)  # it tries forty times
    path, tries = paths.node(N1), []

    def decide(opened: Session, seen: World) -> list[list[Change]]:
        view = seen.nodes[N1]
        if not tries:  # somebody is faster, once
            opened.commit([Set(path, view.record, view.version)])
        tries.append(view.version)
        return [[Set(path, view.record, view.version)]]

    assert len(performer_of_command().decided(world, lambda: decide(world, performer_of_command().load(world)))) == 1
    assert len(tries) == 2

    def always(opened: Session, seen: World) -> list[list[Change]]:
        opened.commit([Set(path, seen.nodes[N1].record, seen.nodes[N1].version)])
        return [[Set(path, seen.nodes[N1].record, seen.nodes[N1].version)]]

    with pytest.raises(Stale, match="others keep changing"):
        performer_of_command().decided(world, lambda: always(world, performer_of_command().load(world)))


@pytest.mark.usefixtures("world")
def test_retry_failed(ask: Ask, becomes: Callable[..., None]) -> None:
    ask("deployment", "commit", "lab")
    becomes(f"base@{N1}", State.ERROR, reason="disk full")
    ask("noderole", "retry", "--failed", "--deployment", "lab")
    assert _states(ask)["base"] == "TODO"


def test_retry_hurries_what_waits_for_its_next_attempt(world: Session, ask: Ask, becomes: Callable[..., None]) -> None:
    ask("deployment", "commit", "lab")
    becomes(f"base@{N1}", State.TODO, not_before=9e9)
    ask("noderole", "retry", f"base@{N1}")
    vertex = load_world(world).vertex(f"base@{N1}")
    assert vertex is not None
    assert vertex.record.not_before == 0.0


@pytest.mark.usefixtures("world")
def test_redeploy_asks_before_a_destructive_role_runs_again(ask: Ask, ocb: Ocb, becomes: Callable[..., None]) -> None:
    becomes(f"base@{N1}", State.ACTIVE, once="done")
    refused = ocb("noderole", "redeploy", f"base@{N1}")
    assert refused.exit_code == 2
    assert f"base@{N1}" in refused.stderr
    ask("noderole", "redeploy", f"base@{N1}", "--yes")
    assert _states(ask)["base"] == "TODO"


def test_a_deployment_with_a_rollout_under_way_is_not_deleted(ask: Ask, ocb: Ocb, world: Session) -> None:
    ask("deployment", "create", "empty")
    rollouts.begin(world, "empty", begin(strategy.WHOLE, {}, 1.0))
    me = LockOwner(daemon="a1", host="h", pid=1, purpose="rollout 0000000000 of deployment empty", since=1.0)
    Locks(world).take(paths.rollout_lock("empty", "0000000000"), me)
    assert [(row["kind"], row["name"], row["owner"]) for row in ask("lock", "list")] == [
        ("rollout", "empty/0000000000", "a1")
    ]
    refused = ocb("deployment", "delete", "empty", "--yes")
    assert (refused.exit_code, "rollout empty/0000000000 is under way" in refused.stderr) == (4, True)


def test_a_run_is_cancelled_and_nothing_else_is(ask: Ask, becomes: Callable[..., None], ocb: Ocb) -> None:
    refused = ocb("noderole", "cancel", TOP)
    assert refused.exit_code == 4
    assert "only running noderoles can be cancelled" in refused.stderr
    becomes(f"base@{N1}", State.TRANSITION, run="r1", epoch=1, by="a1")
    ask("noderole", "cancel", f"base@{N1}", "--reason", "wrong disk")
    shown = ask("noderole", "show", f"base@{N1}")
    assert (shown["state"], shown["by"], shown["run"]) == ("TRANSITION", "a1", "r1")
    assert shown["cancel_reason"].startswith("wrong disk (")

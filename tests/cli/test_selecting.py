"""Verbs that take many: names, a list on stdin, or what a selector means; written at once, or in parts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.engine import selection
from nodepool_ocb.engine.world import World
from nodepool_ocb.errors import Denied, Stale
from nodepool_ocb.model import limits
from nodepool_ocb.model.records import Json, State
from nodepool_ocb.operations.performer import ATTEMPTS
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.docs.pages import ROOT, blocks
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]

SELECTORS = ROOT / "docs/selectors.md"
CLUSTER = """\
barclamp: {name: sites, version: 1}
roles:
  - {name: consul, jig: noop, flags: [cluster]}
  - {name: agent, jig: noop, requires: [consul]}
"""


def test_twenty_nodes_get_a_role_run_and_are_mended_in_three_commands(
    world: Session, ocb: Ocb, ask: Ask, becomes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ocb("node", "create", "web-{:02}.example.com", "--count", "20", "--tag", "rack4").exit_code == 0
    loads = _count_loads(monkeypatch)
    bound = ask("node", "bind", "-l", "tag:rack4", "top")
    assert len(loads) == 1, "all are decided over one world"
    assert sum(row["kind"] == "noderole" for row in bound["changes"]) == 60
    assert ask("node", "bind", "-l", "tag:rack4", "top")["changes"] == []
    assert len(ask("noderole", "commit", "-l", "tag:rack4")["changes"]) == 60
    for number in range(1, 19):
        becomes(f"base@web-{number:02}.example.com", State.ERROR)
    assert len(ask("noderole", "retry", "-l", "tag:rack4", "--dry-run", exit_code=10)["changes"]) == 18
    ask("noderole", "retry", "-l", "tag:rack4")
    states = {name: vertex.record.state for name, vertex in _vertices(world).items() if name.startswith("base@web")}
    assert len(states) == 20
    assert set(states.values()) == {State.TODO}


def _count_loads(monkeypatch: pytest.MonkeyPatch) -> list[World]:
    loaded: list[World] = []
    load = load_world

    def counting(opened: Session) -> World:
        loaded.append(load(opened))
        return loaded[-1]

    monkeypatch.setattr("nodepool_ocb.store.world.load.load_world", counting)
    return loaded


def _vertices(session: Session) -> dict[str, object]:
    return {vertex.name: vertex for vertex in load_world(session).vertices()}


def test_what_is_bound_first_is_found_by_what_is_bound_after_it(
    world: Session, ocb: Ocb, ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "sites.yml").write_text(CLUSTER)
    ocb("barclamp", "import", str(tmp_path / "sites.yml"))
    ocb("node", "create", "c{}.example.com", "--count", "3", "--tag", "c")
    ask("node", "bind", "c2.example.com", "c3.example.com", "consul")
    ask("node", "bind", "-l", "tag:c", "--role", "consul", "--role", "agent")
    found = load_world(world)
    for number in (1, 2, 3):
        vertex = found.vertex(f"agent@c{number}.example.com")
        assert vertex is not None
        assert {parent.name for parent in vertex.parents} == {f"consul@c{each}.example.com" for each in (1, 2, 3)}


def test_one_node_that_refuses_a_role_keeps_it_from_all(world: Session, ocb: Ocb) -> None:
    ocb("node", "create", "n2.example.com")
    refused = ocb("node", "bind", "n2.example.com", "n1.example.com", "other")
    assert refused.exit_code == 4
    assert load_world(world).vertex("other@n2.example.com") is None


def test_nodes_are_changed_marked_moved_and_deleted_together(world: Session, ocb: Ocb, ask: Ask) -> None:
    ocb("node", "create", "m{}.example.com", "--count", "3", "--tag", "m")
    dry = ask("node", "set", "-l", "m*", "rack=r7", "--dry-run", exit_code=10)
    assert [row["name"] for row in dry["changes"]] == [f"m{each}.example.com" for each in (1, 2, 3)]
    ask("node", "set", "m1.example.com", "m2.example.com", "rack=r7")
    assert [row["name"] for row in ask("node", "list", "-l", "rack:r7")] == ["m1.example.com", "m2.example.com"]
    ask("node", "move", "-l", "rack:r7", "lab")
    ask("node", "unavailable", "-l", "deployment:lab rack:r7")
    assert len(ask("node", "list", "-l", "available:no deployment:lab")) == 2
    refused = ocb("node", "dead", "-l", "tag:m")
    assert refused.exit_code == 2
    assert "m1.example.com, m2.example.com, m3.example.com" in refused.stderr
    refused = ocb("node", "delete", "-l", "tag:m")
    assert (refused.exit_code, "delete 3 nodes (m1.example.com, m2" in refused.stderr) == (2, True)
    assert len(ask("node", "delete", "-l", "tag:m", "--dry-run", exit_code=10)["changes"]) == 3
    assert len(load_world(world).nodes) == 4
    ask("node", "delete", "-l", "tag:m", "--yes")
    assert list(load_world(world).nodes) == ["n1.example.com"]


def test_nodes_that_depend_on_each_other_are_deleted_in_their_order(world: Session, ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "sites.yml").write_text(CLUSTER)
    ocb("barclamp", "import", str(tmp_path / "sites.yml"))
    ocb("node", "create", "c{}.example.com", "--count", "2", "--tag", "c")
    ocb("node", "bind", "c1.example.com", "consul")
    ocb("node", "bind", "c2.example.com", "agent")
    ocb("node", "commit", "-l", "tag:c")
    assert ocb("node", "delete", "c1.example.com", "--yes").exit_code == 4
    assert ocb("noderole", "unbind", "consul@c1.example.com", "agent@c2.example.com", "--dry-run").exit_code == 10
    deleted = ocb("node", "delete", "c1.example.com", "c2.example.com", "--yes")
    assert deleted.exit_code == 0, deleted.stderr
    assert list(load_world(world).nodes) == ["n1.example.com"]


@pytest.mark.usefixtures("world")
def test_noderoles_are_set_unset_and_unbound_together(ocb: Ocb, ask: Ask) -> None:
    ocb("node", "create", "m{}.example.com", "--count", "2", "--tag", "m")
    ocb("node", "bind", "-l", "tag:m", "top")
    ask("noderole", "set", "-l", "role:middle tag:m", "middle-size=7")
    for number in (1, 2):
        shown = ask("noderole", "show", f"middle@m{number}.example.com")
        assert shown["attributes"]["user"] == {"middle": {"size": 7}}
    ask("noderole", "unset", "middle@m1.example.com", "middle@m2.example.com", "middle-size")
    assert ask("noderole", "show", "middle@m2.example.com")["attributes"]["user"] == {}
    refused = ocb("noderole", "unbind", "-l", "role:middle tag:m")
    assert refused.exit_code == 2
    assert "delete top@m1.example.com, top@m2.example.com, middle@m1" in refused.stderr
    ask("noderole", "unbind", "-l", "role:middle tag:m", "--yes")
    assert [row["noderole"] for row in ask("noderole", "list", "-l", "m*")] == [
        "base@m1.example.com",
        "base@m2.example.com",
    ]


@pytest.mark.usefixtures("world")
def test_names_come_from_stdin_where_a_dash_stands(ocb: Ocb) -> None:
    ocb("node", "create", "m{}.example.com", "--count", "2")
    names = "# the new ones\n\nm1.example.com\n  m2.example.com  # and its twin\n"
    done = CliRunner().invoke(cli, ["node", "set", "-", "rack=r7", "-o", "name"], input=names, prog_name="nodepool-ocb")
    assert done.stdout.split() == ["m1.example.com", "m2.example.com"]
    text = "\ufeffm1.example.com\nm2.example.com\n"  # as some editors write it
    done = CliRunner().invoke(cli, ["node", "set", "-", "rack=r8", "-o", "name"], input=text, prog_name="nodepool-ocb")
    assert done.stdout.split() == ["m1.example.com", "m2.example.com"]
    wrong = CliRunner().invoke(cli, ["node", "set", "-", "rack=r7"], input="m1 m2\n", prog_name="nodepool-ocb")
    assert (wrong.exit_code, "line 1 of the list on stdin has more than one name" in wrong.stderr) == (2, True)


REFUSED = (
    ("node delete --yes", 2, "give names of nodes, or - for a list of them on stdin, or -l EXPR"),
    ("node delete n1.example.com -l * --yes", 2, "give names of nodes, or -l EXPR, not both"),
    ("node delete -l tag:wbe --yes", 3, "tag wbe does not exist; did you mean `web`?"),
    ("node delete n1.example.com n1.exampel.com mars.example.com --yes", 3, "node mars.example.com does not exist"),
    (
        "node delete n1.example.com n1.exampel.com mars.example.com --yes",
        3,
        "node n1.exampel.com does not exist; did you mean `n1.example.com`?",
    ),
    ("noderole retry a@n1.example.com b@n1.example.com", 3, "b@n1.example.com"),
    ("node delete n* --yes", 3, "a pattern of names is a selector: -l 'n*'"),
    ("node bind n1.example.com base top", 3, "it is a role: of several, write --role for each"),
    ("node bind -l tag:web n1.example.com top", 2, "with -l only the ROLE is given, and no names"),
    ("noderole retry -l failed", 0, "nothing matches the selector"),
    ("tasks run --deployment lab --nodes 1 -l *", 2, "-l EXPR does not go with --nodes"),
)


@pytest.mark.usefixtures("world")
def test_what_cannot_be_meant_is_refused_and_what_means_nothing_says_so(ocb: Ocb) -> None:
    for line, code, said in REFUSED:
        found = ocb(*line.split())
        assert (found.exit_code, said in found.stderr) == (code, True), found.stderr


def test_a_selector_that_is_empty_is_refused_by_those_who_look_too(ocb: Ocb) -> None:
    for verb in (("node", "list"), ("noderole", "list"), ("noderole", "drift"), ("node", "delete"), ("export",)):
        answer = ocb(*verb, "-l", "")
        assert (answer.exit_code, "the selector is empty" in answer.stderr) == (1, True), (verb, answer.output)


@pytest.mark.usefixtures("ocb")
def test_a_list_on_stdin_that_is_no_text_is_wrong_usage() -> None:
    answer = CliRunner().invoke(cli, ["node", "delete", "-", "--yes"], input=b"\xff\xfe\n")
    assert (answer.exit_code, "not UTF-8" in answer.stderr) == (2, True), answer.output


@pytest.mark.usefixtures("world")
def test_rollouts_and_graphs_have_only_what_a_selector_means(ocb: Ocb, ask: Ask) -> None:
    ocb("node", "create", "m1.example.com", "--deployment", "lab")
    ocb("node", "bind", "m1.example.com", "top")
    planned = ask("rollout", "plan", "--deployment", "lab", "-l", "m*")
    assert "m1.example.com" in str(planned)
    assert "n1.example.com" not in str(planned)
    selected = ask("rollout", "select", "--deployment", "lab", "-l", "tag:web")
    assert [row["name"] for row in selected] == ["n1.example.com"]
    drawn = str(ask("graph", "-l", "role:base,middle m1"))
    assert "middle@m1" in drawn
    assert "top@m1" not in drawn
    assert "@n1" not in drawn


MACHINES = """\
barclamp import {barclamp}
deployment create lab
node create web-1.example.com --tag web --rack r1 --label zone=a
node create web-2.example.com --tag web --tag "a, b" --rack r6 --label zone=b
node create db-1.example.com --rack r7
node bind web-1.example.com web-2.example.com db-1.example.com ntp
node bind db-1.example.com dns
"""
ROLES = """\
barclamp: {name: ntp, version: 1}
roles:
  - {name: base, jig: noop}
  - {name: dns, jig: noop}
  - {name: ntp, jig: noop, attribs: [{name: servers, map: ntp/servers, schema: {type: seq, sequence: [{type: str}]}}]}
"""


def test_each_criterion_and_each_example_of_the_page_works(ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "ntp.yml").write_text(ROLES)
    for line in MACHINES.format(barclamp=tmp_path / "ntp.yml").splitlines():
        done = ocb(*shlex.split(line))
        assert done.exit_code == 0, (line, done.stderr)
    page = SELECTORS.read_text()
    criteria = [
        each for cell in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for each in re.findall(r"`(.+?)`", cell)
    ]
    assert len(criteria) > 25
    for text in criteria:
        selection.parse(text)
    [examples] = (block for block in blocks(SELECTORS) if "node list" in block.text)
    for line in examples.text.splitlines():
        done = ocb(*shlex.split(line)[1:])
        assert done.exit_code in (0, 10), (line, done.stderr)
        assert done.stdout or "nothing to do" in done.stderr, line


def test_a_change_in_parts_goes_on_where_it_was_refused(
    world: Session, ocb: Ocb, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ocb("node", "create", "m{}.example.com", "--count", "6", "--tag", "m")
    monkeypatch.setattr(limits, "MOST_CHANGES", 40)
    written: list[int] = []
    commit = Session.commit

    def losing(self: Session, changes: list[object]) -> object:
        written.append(len(changes))
        if len(written) == 2:
            raise Stale("somebody was faster", "/ocb/structure")
        return commit(self, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "commit", losing)
    ask("node", "bind", "-l", "tag:m", "top")
    assert len(written) == 3, "one of two parts was refused once"
    assert max(written) <= 40
    assert sum(vertex.role == "top" for vertex in load_world(world).vertices()) == 7
    assert ATTEMPTS > 1


def test_a_change_that_is_stopped_says_how_far_it_came(
    world: Session, ocb: Ocb, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ocb("node", "create", "m{}.example.com", "--count", "6", "--tag", "m")
    monkeypatch.setattr(limits, "MOST_CHANGES", 40)
    commit, written = Session.commit, list[object]()

    def denied(self: Session, changes: list[object]) -> object:
        written.append(changes)
        if len(written) == 2:
            raise Denied("no")
        return commit(self, changes)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "commit", denied)
    stopped = ocb("node", "bind", "-l", "tag:m", "top")
    assert stopped.exit_code == Denied.exit_code
    assert "written, the last of top@m" in stopped.stderr
    assert "the same command goes on with the rest" in stopped.stderr
    ask("node", "bind", "-l", "tag:m", "top")
    assert sum(vertex.role == "top" for vertex in load_world(world).vertices()) == 7


def test_a_deployment_is_made_and_deleted_on_trial(world: Session, ask: Ask, ocb: Ocb) -> None:
    ask("deployment", "create", "attic", "--dry-run", exit_code=10)
    assert "attic" not in load_world(world).deployments
    ocb("deployment", "create", "attic")
    assert ask("deployment", "delete", "attic", "--dry-run", exit_code=10)["changes"]
    assert "attic" in load_world(world).deployments


@pytest.mark.usefixtures("world")
def test_of_many_names_that_do_not_exist_some_are_told_and_the_rest_counted() -> None:
    names = "".join(f"x{number}.example.com\n" for number in range(30))
    answer = CliRunner().invoke(cli, ["node", "delete", "-", "--yes"], input=names, prog_name="nodepool-ocb")
    assert answer.exit_code == 3
    assert all(f"x{number}.example.com" in answer.stderr for number in range(20))
    assert "and 10 more names that do not exist" in answer.stderr

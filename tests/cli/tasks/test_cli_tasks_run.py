"""Runs of task lists as people begin, watch, end and repeat them: real annealers, real machines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import DaemonProcess
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

Ask = Callable[..., Json]

LIST = """\
- {{id: deploy, type: stage}}
- {{id: web, type: group, role: [web], required_for: [deploy], parameters: {{strategy: {{type: one_by_one}}}}}}
- id: site
  type: shell
  groups: [web]
  required_for: [deploy]
  parameters: {{cmd: 'echo {{uid}} | tee -a {place}/order; test ! -e {place}/broken-{{uid}}', retries: 0, timeout: 60}}
- id: report
  type: shell
  role: '*'
  requires: [deploy]
  parameters: {{cmd: 'echo report >> {place}/order', retries: 0, timeout: 60}}
"""


@pytest.fixture
def annealer(zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, ocb: Ocb) -> Iterator[DaemonProcess]:
    """An annealer, and deployment lab with two machines, 1 and 2, that are web."""
    assert zk_session.connected
    with lab(ocb, zk_settings, tmp_path, 2) as daemon:
        yield daemon


@pytest.fixture
def place(tmp_path: Path, ocb: Ocb, annealer: DaemonProcess) -> Path:
    """Where the tasks of deployment lab write; a file ``broken-2`` there makes site fail on node 2."""
    assert annealer.pid
    (tmp_path / "place").mkdir()
    (tmp_path / "tasks.yaml").write_text(LIST.format(place=tmp_path / "place"))
    assert ocb("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", "lab").exit_code == 0
    return tmp_path / "place"


def run(*more: str) -> tuple[str, ...]:
    return ("tasks", "run", "--deployment", "lab", "--facts-file", "none", *more)


def states(history: Json) -> dict[str, str]:
    return {
        f"{row['task']}@{row['node']}" if row["node"] else row["task"]: row["state"] for row in history["instances"]
    }


def test_a_run_goes_through_the_list_in_its_order_and_keeps_its_history(ocb: Ocb, ask: Ask, place: Path) -> None:
    planned = ocb(*run("--nodes", "2,1", "--dry-run"))
    assert (planned.exit_code, place.joinpath("order").exists()) == (10, False)
    answer = ocb(*run("--nodes", "2,1", "--wait", "--timeout", "120"))
    assert answer.exit_code == 0, answer.output
    assert place.joinpath("order").read_text().split() == ["2", "1", "report", "report"]
    assert re.search(r"^\d of \d successful, .*; \d:\d\d$", answer.stderr, re.MULTILINE), answer.stderr
    history = ask("tasks", "history", "lab")
    assert set(states(history).values()) == {"successful"}
    assert (history["state"], history["what"]) == ("successful", "--nodes 2,1")
    rows = list(csv.DictReader(io.StringIO(ocb("tasks", "history", "lab/0", "--csv", "--task", "site").stdout)))
    assert [(row["node"], row["state"], row["exit_code"]) for row in rows] == [
        ("n2.example.com", "successful", "0"),
        ("n1.example.com", "successful", "0"),
    ]
    assert all(row["queued"] and row["started"] <= row["ended"] and row["log"] for row in rows)
    assert [row["run"] for row in ask("tasks", "runs", "lab")] == ["lab/0000000000"]


def test_what_failed_is_told_and_a_retry_goes_on_with_it(ocb: Ocb, ask: Ask, place: Path) -> None:
    place.joinpath("broken-2").touch()
    answer = ocb(*run("--wait", "--timeout", "120"))
    assert answer.exit_code == 6, answer.output
    assert "nodepool-ocb tasks run --deployment lab --retry" in answer.stderr
    assert "site@n2.example.com: failed: " in answer.stderr
    failed = states(ask("tasks", "history", "lab", "--failed"))
    assert (failed["site@n2.example.com"], failed["deploy"]) == ("failed", "not run")
    place.joinpath("broken-2").unlink()
    place.joinpath("order").unlink()
    plan = ask(*run("--retry", "--dry-run"), exit_code=10)
    assert {(row["task"], len(row["nodes"])) for row in plan["runs"]} == {("site", 1), ("report", 2)}
    assert ocb(*run("--retry", "--wait", "--timeout", "120")).exit_code == 0
    assert place.joinpath("order").read_text().split() == ["2", "report", "report"]
    assert ask("tasks", "runs", "lab")[0]["again"] == "0000000000"
    again = ocb(*run("--retry"))
    assert (again.exit_code, "nothing failed" in again.stderr) == (4, True)


def test_a_retry_writes_facts_where_they_were_and_does_everything_on_a_node_that_was_made_anew(
    ocb: Ocb, ask: Ask, place: Path
) -> None:
    place.joinpath("broken-2").touch()
    assert ocb(*run("--wait", "--timeout", "120")).exit_code == 6
    before = ask("node", "show", "n1.example.com")
    assert ocb("node", "delete", "n1.example.com", "--yes").exit_code == 0
    made = ocb(
        *("node", "create", "n1.example.com", "--deployment", "lab", "--tag", "web", "--label", "uid=1"),
        *("--address", before["addresses"][0], "--user", before["user"]),
    )
    assert made.exit_code == 0, made.output
    plan = ask("tasks", "run", "--deployment", "lab", "--retry", "--dry-run", exit_code=10)
    assert ("site", "n1.example.com") in {(row["task"], node) for row in plan["runs"] for node in row["nodes"]}
    assert ocb("tasks", "run", "--deployment", "lab", "--retry").exit_code == 0
    assert "facts@n2.example.com" not in states(ask("tasks", "history", "lab")), "the first run had no file"


def test_a_part_of_the_list_runs_alone(ocb: Ocb, ask: Ask, place: Path) -> None:
    assert ocb(*run("--tasks", "site/2", "--wait", "--timeout", "120")).exit_code == 0
    assert place.joinpath("order").read_text().split() == ["2"]
    history = ask("tasks", "history", "lab")
    assert states(history)["report@n1.example.com"] == "skipped"
    nothing = ocb(*run("--tasks", "site", "--skip", "site"))
    assert (nothing.exit_code, "nothing is left to run" in nothing.stderr) == (1, True)


def test_a_run_that_is_stopped_says_so_and_begins_nothing_more(
    ocb: Ocb, ask: Ask, place: Path, tmp_path: Path, until: Callable[..., None]
) -> None:
    text = LIST.format(place=place).replace("test ! -e", f"while test ! -e {place}/go; do sleep 0.1; done; test ! -e")
    (tmp_path / "slow.yaml").write_text(text)
    assert ocb("tasks", "upload", str(tmp_path / "slow.yaml"), "--deployment", "lab").exit_code == 0
    begun = ocb(*run(), "-o", "json")
    assert begun.exit_code == 0, begun.output
    until(place.joinpath("order").exists, 60)
    other = ocb(*run())
    assert (other.exit_code, "nodepool-ocb tasks stop lab" in other.stderr) == (4, True)
    assert ask("tasks", "history", "lab")["state"] == "running"
    assert ocb("tasks", "wait", "lab", "--timeout", "0.2").exit_code == 5
    dry = ask("tasks", "stop", "lab", "--now", "--dry-run", exit_code=10)
    assert {"field": "stop", "old": None, "new": "now"} in dry["changes"][-1]["fields"]
    assert ocb("tasks", "stop", "lab", "--now").exit_code == 0
    answer = ocb("tasks", "wait", "lab", "--timeout", "60", "-o", "json")
    assert (answer.exit_code, json.loads(answer.stdout)["outcome"]) == (6, "stopped")
    assert place.joinpath("order").read_text().split() == ["1"]
    late = ocb("tasks", "stop", "lab")
    assert (late.exit_code, "is over" in late.stderr) == (4, True)


def test_a_graph_has_the_states_of_the_newest_run(ocb: Ocb, ask: Ask, place: Path) -> None:
    assert ocb(*run("--tasks", "site/1", "--wait", "--timeout", "120")).exit_code == 0
    drawn = ask("tasks", "graph", "--deployment", "lab")
    found = {each["name"]: each["state"] for each in drawn["nodes"]}
    assert found["site@n1.example.com"] == "successful"
    assert 'label="site\\nshell\\nsuccessful", fillcolor="green"' in ocb("tasks", "graph", "--deployment", "lab").stdout
    assert place.joinpath("order").read_text() == "1\n"


def test_each_node_gets_its_facts_first(ocb: Ocb, place: Path) -> None:
    answer = ocb(*run("--wait", "--timeout", "120")[:4], "--facts-file", str(place / "astute.yaml"), *run("--wait")[6:])
    assert answer.exit_code == 0, answer.output
    assert 'fqdn: "n' in (place / "astute.yaml").read_text()


def test_mistaken_names_and_options_are_reported(ocb: Ocb, place: Path) -> None:
    assert place.is_dir()
    for words, code, said in (
        (("history", "lad"), 3, "did you mean `lab`"),
        (("history", "lab/7"), 3, "nodepool-ocb tasks runs lab"),
        (("wait", "lab"), 3, "no tasks were run in deployment lab"),
        (("run", "--deployment", "lab", "--retry"), 4, "leave --retry away"),
        (("run", "--deployment", "lab", "--retry", "--tasks", "site"), 2, "--retry goes on as it was chosen then"),
    ):
        answer = ocb("tasks", *words)
        assert (answer.exit_code, said in answer.stderr) == (code, True), answer.output


def test_a_run_that_is_to_change_nothing_changes_nothing_and_does_not_count(ocb: Ocb, ask: Ask, place: Path) -> None:
    answer = ocb(*run("--noop", "--wait", "--timeout", "120"))
    assert answer.exit_code == 0, answer.output
    assert not place.joinpath("order").exists()
    place.joinpath("broken-2").touch()
    assert ocb(*run("--wait", "--timeout", "120")).exit_code == 6
    assert ocb(*run("--noop", "--wait", "--timeout", "120")).exit_code == 0
    assert [row["noop"] for row in ask("tasks", "runs", "lab")] == [True, False, True]
    assert ocb(*run("--retry", "--dry-run")).exit_code == 10


def test_on_an_event_a_node_that_is_done_runs_what_names_the_event(
    ocb: Ocb, ask: Ask, place: Path, tmp_path: Path
) -> None:
    text = LIST.format(place=place).replace(
        "requires: [deploy]", "requires: [deploy]\n  reexecute_on: [deploy_changes]"
    )
    (tmp_path / "tasks.yaml").write_text(text)
    assert ocb("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", "lab").exit_code == 0
    assert ocb(*run("--nodes", "1", "--wait", "--timeout", "120")).exit_code == 0
    plan = ask(*run("--event", "deploy_changes", "--dry-run"), exit_code=10)
    assert {(row["task"], *row["nodes"]) for row in plan["runs"]} == {
        ("site", "n2.example.com"),
        ("report", "n1.example.com", "n2.example.com"),
    }
    other = ask(*run("--event", "other", "--dry-run"), exit_code=10)
    assert {node for row in other["runs"] for node in row["nodes"]} == {"n2.example.com"}


def test_a_node_that_was_deleted_and_made_again_has_done_nothing(ocb: Ocb, ask: Ask, place: Path) -> None:
    place.joinpath("broken-2").touch()
    assert ocb(*run("--wait", "--timeout", "240")).exit_code == 6

    def planned(*more: str) -> set[tuple[str, str]]:
        return {
            (row["task"], node) for row in ask(*run("--dry-run", *more), exit_code=10)["runs"] for node in row["nodes"]
        }

    assert ("site", "n1.example.com") not in planned("--retry") | planned("--event", "other")
    assert ocb("node", "delete", "n1.example.com", "--yes").exit_code == 0
    again = ("node", "create", "n1.example.com", "--deployment", "lab", "--tag", "web", "--label", "uid=1")
    assert ocb(*again).exit_code == 0
    assert ("site", "n1.example.com") in planned("--retry") & planned("--event", "other")


def test_conditions_compare_with_the_facts_of_the_last_good_run_on_the_node(
    ocb: Ocb, ask: Ask, place: Path, tmp_path: Path
) -> None:
    condition = "condition: {yaql_exp: 'changed($.speed)'}\n  parameters"
    text = LIST.format(place=place).replace("parameters: {cmd: 'echo report", f"{condition}: {{cmd: 'echo report")
    (tmp_path / "tasks.yaml").write_text(text)
    (tmp_path / "fast.json").write_text('{"speed": 10}')
    (tmp_path / "faster.json").write_text('{"speed": 20}')
    upload = ("tasks", "upload", str(tmp_path / "tasks.yaml"), "--deployment", "lab", "--settings")
    assert ocb(*upload, str(tmp_path / "fast.json")).exit_code == 0
    answer = ocb(*run("--wait", "--timeout", "120"))
    assert answer.exit_code == 0, answer.output
    assert place.joinpath("order").read_text().split().count("report") == 2

    def reported(*more: str) -> bool:
        return "report" in {row["task"] for row in ask(*run("--dry-run", *more), exit_code=10)["runs"]}

    assert (reported(), reported("--force")) == (False, True)
    assert ocb(*upload, str(tmp_path / "faster.json")).exit_code == 0
    assert reported()

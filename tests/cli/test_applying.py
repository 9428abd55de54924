"""``apply``, ``export`` and ``node import`` against a real ZooKeeper."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model.records import State
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.journal import Journaled
from tests.cli.background_command import COMMAND
from tests.cli.people import Interrupted

Ocb = Callable[..., Result]
Ask = Callable[..., Any]
Elsewhere = Callable[..., Result]

SITE = """\
site: 1
deployments:
  lab: {state: COMMITTED, roles: {middle: {user: {middle: {size: 2}}}}}
nodes:
  n1.example.com:
    noderoles: {top: {state: COMMITTED}}
  n2.example.com:
    deployment: lab
    tags: [web]
    noderoles: {middle: {state: COMMITTED, user: {middle: {size: 3}}}}
"""


@pytest.fixture
def site(world: Session, tmp_path: Path) -> Path:
    """The small world, and a file that wants more of it."""
    assert world.connected
    file = tmp_path / "site.yaml"
    file.write_text(SITE)
    return file


@pytest.fixture
def elsewhere(zk_settings: ZooKeeperSettings, world: Session) -> Elsewhere:
    """The command line, in a second cluster that is new: ``elsewhere("apply", "-f", "-", input=text)``."""
    assert world.connected
    hosts = f"{zk_settings.hosts}/second"

    def run(*arguments: str, **more: Any) -> Result:
        return CliRunner().invoke(cli, ["--zookeeper", hosts, *arguments], prog_name="nodepool-ocb", **more)

    assert run("init").exit_code == 0
    return run


def test_a_dry_run_says_what_would_be_and_writes_nothing_and_an_apply_does_it_once(
    ocb: Ocb, ask: Ask, site: Path
) -> None:
    before = ocb("export").stdout
    found = ask("apply", "-f", str(site), "--dry-run", exit_code=10)
    assert {(row["change"], row["kind"], row["name"]) for row in found["changes"]} >= {
        ("create", "node", "n2.example.com"), ("create", "noderole", "middle@n2.example.com"),
        ("create", "attributes", "middle@n2.example.com (user)"), ("change", "noderole", "top@n1.example.com"),
        ("change", "deployment", "lab"), ("change", "deployment role", "middle in lab"),
    }  # fmt: skip
    assert ocb("export").stdout == before
    done = ocb("apply", "-f", str(site))
    assert (done.exit_code, "plan: 3 to change" in done.stderr) == (0, False), done.output
    again = ocb("apply", "-f", str(site), "--dry-run")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "nothing to do\n")
    assert ask("noderole", "show", "middle@n2.example.com")["attributes"]["user"] == {"middle": {"size": 3}}


def test_a_cluster_that_is_written_down_is_made_anew_and_is_the_same(
    ocb: Ocb, site: Path, elsewhere: Elsewhere
) -> None:
    assert ocb("apply", "-f", str(site)).exit_code == 0
    exported = ocb("export").stdout
    assert elsewhere("apply", "-f", "-", input=exported).exit_code == 0
    again = elsewhere("apply", "-f", "-", "--dry-run", "--prune", input=exported)
    assert (again.exit_code, again.stderr) == (0, "nothing to do\n")
    assert elsewhere("export").stdout == exported
    assert elsewhere("export", "-o", "json").stdout == ocb("export", "-o", "json").stdout


def test_an_export_of_a_deployment_has_its_nodes_and_is_not_whole(ocb: Ocb, world: Session) -> None:
    assert world.connected
    ocb("deployment", "create", "desk")
    ocb("node", "create", "n9.example.com", "--deployment", "desk")
    found = yaml.safe_load(ocb("export", "--deployment", "desk", "--no-roles").stdout)
    assert (list(found), list(found["nodes"])) == (["site", "deployments", "nodes"], ["n9.example.com"])
    assert list(found["deployments"]) == ["desk"]
    assert yaml.safe_load(ocb("export", "-l", "tag:web").stdout)["nodes"].keys() == {"n1.example.com"}
    assert yaml.safe_load(ocb("export", "n9.example.com").stdout)["nodes"].keys() == {"n9.example.com"}


def test_what_goes_is_shown_and_asked_for_and_is_gone_afterwards(ocb: Ocb, ask: Ask, site: Path) -> None:
    assert ocb("apply", "-f", str(site)).exit_code == 0
    site.write_text("site: 1\ndeployments: {lab: {}}\nnodes: {n1.example.com: {noderoles: [middle]}}\n")
    asked = ocb("apply", "-f", str(site), "--prune")
    assert asked.exit_code == 2
    for name in ("noderole top@n1.example.com", "node n2.example.com", "noderole middle@n2.example.com", "give --yes"):
        assert name in asked.stderr
    assert ocb("apply", "-f", str(site), "--prune", "--dry-run").exit_code == 10
    assert len(ask("node", "list")) == 2
    assert ocb("apply", "-f", str(site), "--prune", "--yes").exit_code == 0
    assert [row["noderole"] for row in ask("noderole", "list")] == ["base@n1.example.com", "middle@n1.example.com"]
    assert ocb("apply", "-f", str(site), "--prune").stderr == "nothing to do\n"


def test_values_that_a_role_refuses_are_told_with_their_line_and_nothing_is_written(
    ocb: Ocb, ask: Ask, site: Path
) -> None:
    site.write_text(SITE.replace("size: 3", "size: big"))
    refused = ocb("apply", "-f", str(site))
    assert refused.exit_code == 1
    assert f"{site}:10: nodes.n2.example.com.noderoles.middle: role middle: attribute middle-size" in refused.stderr
    assert len(ask("node", "list")) == 1


@pytest.mark.parametrize(("meanwhile", "exit_code"), [("node set n1.example.com rack=r9", 0), ("node create n3.example.com", 0),
                                                      ("node move n2.example.com system", 4)])  # fmt: skip
def test_what_others_do_meanwhile_is_borne_as_long_as_the_plan_stays_what_it_was(
    ocb: Ocb, ask: Ask, site: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str, exit_code: int
) -> None:
    """Before the first transaction is sent, after the plan was told."""
    ocb("node", "create", "n2.example.com", "--deployment", "lab")
    done: list[int] = []

    class Late(Interrupted):
        def commit(self, changes: Any) -> Any:
            if not done and len(changes) > 2:
                done.append(0)
                monkeypatch.setattr(journal, "Journaled", Journaled)
                done.append(ocb(*meanwhile.split()).exit_code)
            return super().commit(changes)

    monkeypatch.setattr(journal, "Journaled", Late)
    result = ocb("apply", "-f", str(site))
    assert done == [0, 0]
    assert result.exit_code == exit_code, result.output
    if exit_code:
        assert "the cluster changed since this was planned" in result.stderr
        assert ask("noderole", "show", "top@n1.example.com")["state"] == "PROPOSED"


def test_an_interrupted_apply_reports_its_progress(ocb: Ocb, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodepool_ocb.model.limits.MOST_CHANGES", 6)
    commits: list[int] = []

    class Late(Interrupted):
        """Somebody takes a new node away, behind the transaction that made it and more."""

        def commit(self, changes: Any) -> Any:
            commits.append(len(changes))
            if len(commits) == 4:
                with monkeypatch.context() as patch:
                    patch.setattr(journal, "Journaled", Journaled)
                    assert ocb("node", "move", "n2.example.com", "system").exit_code == 0
            return super().commit(changes)

    monkeypatch.setattr(journal, "Journaled", Late)
    stopped = ocb("apply", "-f", str(site))
    assert (stopped.exit_code, "; 3 transactions were written" in stopped.stderr) == (4, True), stopped.output


def test_what_other_nodes_have_to_do_with_is_noted(ocb: Ocb, world: Session, site: Path, tmp_path: Path) -> None:
    assert world.connected
    (tmp_path / "ring.yml").write_text(
        "barclamp: {name: ring}\nroles:\n- {name: member, jig: noop, flags: [cluster]}\n"
        "- {name: all, jig: noop, requires: [member]}\n"
    )
    assert ocb("barclamp", "import", str(tmp_path / "ring.yml")).exit_code == 0
    text = "site: 1\nnodes:\n  n1.example.com: {noderoles: [member, all]}\n"
    site.write_text(text)
    assert "new member" not in ocb("apply", "-f", str(site)).stderr
    site.write_text(f"{text}  n2.example.com: {{deployment: lab, noderoles: [member]}}\n")
    done = ocb("apply", "-f", str(site))
    assert "all@n1.example.com ← member@n2.example.com: it is a new member of cluster member" in done.stderr, (
        done.output
    )


def test_a_hint_of_a_wrong_form_is_told_with_its_line(ocb: Ocb, site: Path) -> None:
    site.write_text("site: 1\nnodes:\n  n1.example.com: {hints: {admin-mac: here}}\n")
    refused = ocb("apply", "-f", str(site))
    assert (refused.exit_code, f"{site}:3: nodes.n1.example.com: hint admin-mac=here" in refused.stderr) == (1, True)


def test_what_would_be_given_something_else_now_is_said_where_attributes_change(
    ocb: Ocb, ask: Ask, world: Session, site: Path, becomes: Callable[..., None]
) -> None:
    assert world.connected
    for role in ("base", "middle", "top"):
        becomes(f"{role}@n1.example.com", State.ACTIVE, given=7)
    site.write_text("site: 1\nnodes: {n1.example.com: {tags: [db]}}\n")
    assert "outdated" not in ocb("apply", "-f", str(site)).stderr
    site.write_text("site: 1\nnodes: {n1.example.com: {noderoles: {middle: {user: {middle: {size: 3}}}}}}\n")
    assert "outdated" not in ocb("apply", "-f", str(site), "--dry-run").stderr
    done = ocb("apply", "-f", str(site))
    assert (done.exit_code, "outdated" in done.stderr) == (0, True), done.stderr
    assert ask("noderole", "show", "middle@n1.example.com")["attributes"]["user"] == {"middle": {"size": 3}}


def _large(folder: Path, nodes: int, roles: int) -> Path:
    """Roles in a chain, each with an attribute, on all of the nodes; all committed."""
    text = "barclamp: {name: large}\nroles:\n"
    for role in range(roles):
        needs = f", requires: [r{role - 1}]" if role else ""
        text += f"  - {{name: r{role}, jig: noop{needs}, attribs: [{{name: a{role}, map: a/b{role}, schema: {{type: int}}}}]}}\n"
    (folder / "large.yml").write_text(text)
    bound = {f"r{role}": {"state": "COMMITTED", "user": {"a": {f"b{role}": role}}} for role in range(roles)}
    names = [f"m{node:03}.example.com" for node in range(nodes)]
    site = {
        "site": 1,
        "deployments": {"large": {"state": "COMMITTED"}},
        "nodes": {name: {"deployment": "large", "labels": {"hash": "1e3"}, "noderoles": bound} for name in names},
    }
    (folder / "large.json").write_text(json.dumps(site))
    return folder / "large.json"


def _anew(ocb: Ocb, elsewhere: Elsewhere, file: Path, crash: Callable[[Path], object]) -> None:
    """The first cluster is written down, and made anew in the second, with a crash in the midst."""
    assert ocb("barclamp", "import", str(file.with_suffix(".yml"))).exit_code == 0
    assert ocb("apply", "-f", str(file)).exit_code == 0
    exported = file.with_suffix(".yaml")
    exported.write_text(ocb("export").stdout)
    crash(exported)
    assert elsewhere("export").stdout != exported.read_text()
    assert elsewhere("apply", "-f", str(exported)).exit_code == 0
    assert elsewhere("export").stdout == exported.read_text()
    again = elsewhere("apply", "-f", str(exported), "--dry-run")
    assert (again.exit_code, again.stderr) == (0, "nothing to do\n")


def test_a_cluster_is_made_anew_the_same_though_the_first_try_was_interrupted(
    ocb: Ocb, elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(Journaled):
        commits = 0

        def commit(self, changes: Any) -> Any:
            Ended.commits += 1
            if Ended.commits > 3:
                raise KeyboardInterrupt
            return super().commit(changes)

    def crash(exported: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(journal, "Journaled", Ended)
            assert elsewhere("apply", "-f", str(exported)).exit_code == 130

    _anew(ocb, elsewhere, _large(tmp_path, 30, 3), crash)


@pytest.mark.long
def test_two_hundred_nodes_with_ten_roles_are_made_anew_the_same_though_the_first_try_was_killed(
    ocb: Ocb, elsewhere: Elsewhere, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    hosts = f"{zk_settings.hosts}/second"

    def crash(exported: Path) -> None:
        command = [*COMMAND, "--zookeeper", hosts, "apply", "-f", str(exported)]
        with (
            Session(ZooKeeperSettings(hosts=hosts)) as opened,
            subprocess.Popen(command, stdout=subprocess.DEVNULL) as process,
        ):
            deadline = time.monotonic() + 60
            while not opened.children("/ocb/nodes"):
                assert time.monotonic() < deadline
            process.kill()

    _anew(ocb, elsewhere, _large(tmp_path, 200, 10), crash)


# -- nodes of tables --


def test_nodes_of_a_table_are_created_once_and_changed_on_purpose(
    ocb: Ocb, ask: Ask, world: Session, tmp_path: Path
) -> None:
    assert world.connected
    table = tmp_path / "nodes.csv"
    table.write_text("fqdn,address,tags\nweb1.example.com,10.0.0.1,web\nweb2.example.com,10.0.0.2,web\n")
    assert ocb("node", "import", str(table), "--deployment", "lab", "--dry-run").exit_code == 10
    assert ocb("node", "import", str(table), "--deployment", "lab").exit_code == 0
    assert [row["deployment"] for row in ask("node", "list") if row["tags"] == ["web"]] == ["lab", "lab", "lab"]
    assert ocb("node", "import", str(table), "--deployment", "lab").stderr == "nothing to do\n"
    table.write_text("fqdn,address,tags\nweb1.example.com,10.0.0.1,db\nweb3.example.com,10.0.0.3,web\n")
    refused = ocb("node", "import", str(table))
    assert refused.exit_code == 4
    assert f"{table}:2: web1.example.com: exists already, with other tags; --update changes it" in refused.stderr
    assert ocb("node", "import", str(table), "--update").exit_code == 0
    assert ask("node", "show", "web1.example.com")["tags"] == ["db"]
    assert ask("node", "show", "web3.example.com")["addresses"] == ["10.0.0.3"]


def test_an_inventory_of_ansible_comes_on_stdin(elsewhere: Elsewhere) -> None:
    inventory = {"_meta": {"hostvars": {"web1": {"ansible_host": "10.0.0.1"}}}, "web": {"hosts": ["web1"]}}
    done = elsewhere("node", "import", "-", "--domain", "example.com", input=json.dumps(inventory))
    assert done.exit_code == 0, done.output
    shown = json.loads(elsewhere("node", "show", "web1.example.com", "-o", "json").stdout)
    assert (shown["addresses"], shown["tags"]) == (["10.0.0.1"], ["web"])

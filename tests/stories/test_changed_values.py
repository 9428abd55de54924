"""A change reaches the machines: what sees it is outdated, is told with what changed, and a commit runs exactly that again.

A real annealer, the command line, and jig test in the place of machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

Ask = Callable[..., Json]
SETTINGS = {"annealer": {"probe_seconds": 600.0}}

#: Two chains of five on each node, a0 <- a1 ... and b0 <- b1 ...; each has an attribute of its own.
BARCLAMP = "barclamp: {name: chains, version: 1}\nroles:\n" + "".join(
    f"  - {{name: {chain}{number}, jig: test, flags: [implicit], requires: [{f'{chain}{number - 1}' if number else ''}],"
    f" attribs: [{{name: {chain}{number}-text, map: {chain}{number}/text, default: old}}]}}\n"
    for chain in "ab"
    for number in range(5)
)


class Lab:
    """Nodes with all ten roles in deployment lab, all ACTIVE."""

    def __init__(self, ocb: Ocb, ask: Ask, session: Session, folder: Path, size: int) -> None:
        self._ocb, self._session, self.ask = ocb, session, ask
        self.file = folder / "chains.yml"
        self.file.write_text(BARCLAMP)
        self.nodes = [f"n{number:03}.example.com" for number in range(size)]
        self("barclamp", "import", str(self.file))
        self("deployment", "create", "lab")
        for fqdn in self.nodes:
            self("node", "create", fqdn, "--deployment", "lab", "--virtual")
            for top in ("a4", "b4"):
                self("node", "bind", fqdn, top)
        self("deployment", "commit", "lab", "--wait", "--timeout", "300")

    def __call__(self, *line: str, exit_code: int = 0) -> str:
        answer = self._ocb(*line)
        assert answer.exit_code == exit_code, (line, answer.output)
        return answer.stdout + answer.stderr

    def on_all(self, *roles: str) -> set[str]:
        return {f"{role}@{fqdn}" for role in roles for fqdn in self.nodes}

    def generations(self) -> dict[str, int]:
        world = load_world(self._session)
        assert all(vertex.record.state is State.ACTIVE for vertex in world.vertices())
        return {vertex.name: vertex.record.generation for vertex in world.vertices()}

    def ran_again(self, before: dict[str, int]) -> set[str]:
        return {name for name, generation in self.generations().items() if generation != before[name]}

    def outdated(self) -> set[str]:
        return {row["noderole"] for row in self.ask("noderole", "list", "--outdated")}

    def commit(self) -> None:
        self("deployment", "commit", "lab", "--wait", "--timeout", "300")


@pytest.fixture(params=[2, pytest.param(200, marks=pytest.mark.long)])
def site(
    request: pytest.FixtureRequest,
    ocb: Ocb,
    ask: Ask,
    zk_session: Session,
    zk_settings: ZooKeeperSettings,
    tmp_path: Path,
) -> Iterator[Lab]:
    with DaemonProcess(zk_settings, tmp_path / "annealer", SETTINGS):
        yield Lab(ocb, ask, zk_session, tmp_path, request.param)


def test_a_changed_attribute_of_a_deployment_is_run_again_by_exactly_those_that_see_it(site: Lab) -> None:
    before, seen_by = site.generations(), site.on_all("a2", "a3", "a4")
    assert site.outdated() == set()
    site("deployment", "propose", "lab")
    said = site("deployment", "set", "lab", "a2", 'a2-text="new"')
    assert f"{len(seen_by)} noderoles are outdated in deployment lab: nodepool-ocb deployment commit lab" in said
    assert site.outdated() == seen_by
    assert site("noderole", "list", "-l", "outdated") == site("noderole", "list", "--outdated")
    assert "DIFFERENT" not in site("noderole", "list", "-l", "outdated or state:ACTIVE")
    assert {row["state"] for row in site.ask("noderole", "list", "-l", "outdated")} == {"ACTIVE"}
    (changed,) = site.ask("noderole", "attributes", min(seen_by), "--changed")
    assert (changed["what"], changed["before"], changed["now"]) == ("a2/text", "old", "new")
    planned = site.ask("deployment", "commit", "lab", "--dry-run", exit_code=10)
    why = 'runs again: a2/text: "old" -> "new" (deployment: role a2 of lab)'
    assert sorted(planned["explanations"]) == sorted(f"{name} {why}" for name in seen_by)
    assert {row["name"] for row in planned["changes"] if row["kind"] == "noderole"} == seen_by
    assert site.ran_again(before) == set()
    site.commit()
    assert site.ran_again(before) == seen_by
    assert site.outdated() == set()
    assert site.ask("status")["outdated"] == []
    name = min(seen_by)
    first, second = (run["run"] for run in site.ask("noderole", "show", name)["runs"])
    compared = site.ask("noderole", "attributes", name, "--runs", first, second)
    assert [(row["place"], row["one"], row["other"]) for row in compared["differences"]] == [("a2/text", "old", "new")]
    assert "were given the same" in site("noderole", "attributes", name, "--runs", second, second)


def small(site: Lab) -> None:
    if len(site.nodes) > 10:
        pytest.skip("a small site shows it as well")


def test_what_a_barclamp_says_otherwise_is_run_again(site: Lab) -> None:
    small(site)
    before = site.generations()
    site.file.write_text(BARCLAMP.replace("{name: b3,", "{name: b3, parameters: {delay: 0.01},"))
    said = site("barclamp", "import", str(site.file))
    assert "2 noderoles are outdated in deployment lab: nodepool-ocb deployment commit lab runs them again" in said
    (row,) = site.ask("status")["outdated"]
    assert (row["deployment"], row["noderoles"]) == ("lab", 2)
    explained = site.ask("noderole", "explain", f"b3@{site.nodes[0]}")["outdated"]
    assert explained["different"] == "parameters/delay: not set -> 0.01 (role)"
    said = site("noderole", "explain", f"b3@{site.nodes[0]}")
    assert "1. DONE: it is ACTIVE" in said
    assert "-> nodepool-ocb deployment commit lab\n" in said
    assert "parameters/delay: not set -> 0.01 (role)" in said
    site.commit()
    assert site.ran_again(before) == site.on_all("b3")


def test_a_default_of_a_role_that_is_provided_is_told_to_outdate_those_who_provide_it(site: Lab) -> None:
    small(site)
    provided = "attribs: [{name: base-text, map: base/text, default: old}]"
    more = f"  - {{name: base, jig: test, {provided}}}\n  - {{name: high, jig: test, provides: [base]}}\n"
    site.file.write_text(BARCLAMP + more)
    site("barclamp", "import", str(site.file))
    site("node", "bind", site.nodes[0], "high")
    site.commit()
    site.file.write_text(BARCLAMP + more.replace("default: old", "default: new"))
    said = site("barclamp", "import", str(site.file))
    assert "1 noderole is outdated in deployment lab" in said
    assert site.outdated() == {f"high@{site.nodes[0]}"}


def test_a_role_that_has_nothing_to_run_any_more_is_run_again_once_and_once_more_when_it_has(site: Lab) -> None:
    small(site)
    milestone = BARCLAMP.replace("{name: b4, jig: test,", "{name: b4, jig: noop,")
    for barclamp in (milestone, BARCLAMP):
        site.file.write_text(barclamp)
        site("barclamp", "import", str(site.file))
        assert site.outdated() == site.on_all("b4")
        before = site.generations()
        site.commit()
        assert site.ran_again(before) == site.on_all("b4")
        assert site.outdated() == set()


def test_what_changed_while_it_ran_is_told_to_outdate_it_by_the_commit_that_waited_for_it(
    site: Lab, until: Callable[..., None]
) -> None:
    small(site)
    site.file.write_text(BARCLAMP.replace("{name: a4, jig: test,", "{name: a4, jig: test, parameters: {delay: 8},"))
    site("barclamp", "import", str(site.file))
    site("deployment", "commit", "lab")
    until(lambda: len(site.ask("noderole", "list", "--role", "a4", "--state", "TRANSITION")) == 2, 30.0)
    site("deployment", "propose", "lab")
    site("deployment", "set", "lab", "a4", 'a4-text="new"')
    assert "2 noderoles run already; if it began before a change" in site("deployment", "commit", "lab")
    said = site("deployment", "commit", "lab", "--wait", "--timeout", "60")
    assert "2 noderoles are outdated in deployment lab: nodepool-ocb deployment commit lab runs them again" in said
    assert site.outdated() == site.on_all("a4")


def test_one_noderole_is_committed_again_alone_and_its_children_stay_outdated(site: Lab) -> None:
    small(site)
    before, first = site.generations(), site.nodes[0]
    site("deployment", "propose", "lab")
    site("noderole", "set", f"a3@{first}", 'a3-text="mine"')
    assert site.outdated() == {f"a3@{first}", f"a4@{first}"}
    site("deployment", "commit", "lab", "--no-noderoles")
    site("noderole", "commit", f"a3@{first}", "--wait", "--timeout", "60")
    assert site.ran_again(before) == {f"a3@{first}"}
    assert site.outdated() == {f"a4@{first}"}


def test_what_a_destructive_role_would_be_given_otherwise_is_told_and_not_run(site: Lab) -> None:
    small(site)
    before = site.generations()
    site.file.write_text(
        BARCLAMP.replace("{name: b4,", "{name: b4, parameters: {a: 1},").replace(
            "a: 1}, jig: test, flags: [implicit]", "a: 1}, jig: test, flags: [implicit, destructive]"
        )
    )
    said = site("barclamp", "import", str(site.file))
    assert "2 destructive noderoles are outdated in deployment lab, and no commit runs them again" in said
    said = site("deployment", "commit", "lab")
    assert f"b4@{site.nodes[0]} is outdated and destructive, so it is left: nodepool-ocb noderole redeploy" in said
    assert site.ran_again(before) == set()
    assert site.outdated() == site.on_all("b4")


def test_attributes_that_cannot_be_read_outdate_nobody_who_sees_them(site: Lab, kazoo: KazooClient) -> None:
    small(site)
    first = site.nodes[0]
    site("deployment", "propose", "lab")
    site("deployment", "set", "lab", "a3", 'a3-text="new"')
    kazoo.create(paths.user("a3", first), b"{oops")
    assert site.outdated() == site.on_all("a3", "a4") - {f"a3@{first}", f"a4@{first}"}
    assert "noderoles that see these attributes are not reported as outdated" in site("noderole", "list", "--outdated")


def test_an_idle_site_writes_nothing_though_much_is_outdated(site: Lab, zk_session: Session) -> None:
    small(site)
    site("deployment", "propose", "lab")
    site("deployment", "set", "lab", "a0", 'a0-text="new"')
    before = max(vertex.mzxid for vertex in load_world(zk_session).vertices())
    site("status")
    site("noderole", "list", "--outdated")
    site("deployment", "commit", "lab", "--dry-run", exit_code=10)
    assert max(vertex.mzxid for vertex in load_world(zk_session).vertices()) == before


DISKS = """\
barclamp: {name: inventory, version: 1}
roles:
  - name: disks
    jig: script
    attribs: [{name: disks, map: inventory/disks}]
    script: |
      #!/bin/sh
      set -eu
      for disk in $(cat %(folder)s/disks); do write_attribute inventory/disks/$disk yes; done
      write_attribute inventory/runs "$(read_attribute inventory/runs '')x"
  - name: users
    jig: script
    requires: [disks]
    script: read_attribute --keys inventory/disks >%(folder)s/seen
"""


def test_attributes_that_a_run_no_longer_returns_are_removed(
    ocb: Ocb, ask: Ask, zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path
) -> None:
    def seen(disks: str) -> tuple[Json, list[str]]:
        (tmp_path / "disks").write_text(disks)
        for role in ("disks", "users"):
            answer = ocb("noderole", "refresh", f"{role}@n1.example.com", "--wait", "--timeout", "60")
            assert answer.exit_code == 0, answer.output
        wall = ask("noderole", "show", "disks@n1.example.com")["attributes"]["wall"]
        return wall["inventory"], (tmp_path / "seen").read_text().split()

    (tmp_path / "inventory.yml").write_text(DISKS % {"folder": tmp_path})
    (tmp_path / "disks").write_text("sda sdb")
    assert ocb("barclamp", "import", str(tmp_path / "inventory.yml")).exit_code == 0
    with lab(ocb, zk_settings, tmp_path, 1):
        assert ocb("node", "bind", "n1.example.com", "users").exit_code == 0
        committed = ocb("node", "commit", "n1.example.com", "--wait", "--timeout", "60")
        assert committed.exit_code == 0, committed.output
        path = paths.wall("disks", "n1.example.com")
        stored = zk_session.get(path)
        assert stored is not None
        rubbish = {"inventory": {"disks": {"sda": "yes", "sdz": "of an earlier version"}, "runs": "x"}}
        zk_session.commit([Set(path, rubbish, stored.version)])
        assert seen("sda sdb") == ({"disks": {"sda": "yes", "sdb": "yes"}, "runs": "xx"}, ["sda", "sdb"])
        assert seen("sda") == ({"disks": {"sda": "yes"}, "runs": "xxx"}, ["sda"])
        assert seen("sda") == ({"disks": {"sda": "yes"}, "runs": "xxxx"}, ["sda"]), "and not at every second run only"

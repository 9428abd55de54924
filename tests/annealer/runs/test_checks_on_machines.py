"""Checks by a real annealer on a real machine: drift is found, nothing is changed, and what is run again is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.engine.world import World
from nodepool_ocb.model import paths
from nodepool_ocb.model.drift import Checks, Drift
from nodepool_ocb.model.records import Change, Create, Set, State
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab
from tests.journeys.fleet import Fleet

BARCLAMP = """
barclamp: {{name: lab}}
roles:
  - name: note
    jig: script
    check: true
    attribs: [{{name: text, map: note/text, default: first}}]
    script: |
      . "$OCB_LIBRARY"
      text=$(read_attribute note/text)
      echo "$text" | put {folder}/$OCB_NODE
      write_attribute note/done "$text"
  - {{name: below, jig: script, requires: [note], script: "true"}}
  - {{name: broken, jig: script, script: "true", check: "echo odd; exit 3"}}
"""
N1 = "n1.example.com"


def test_drift_is_found_and_mended_on_purpose_and_a_check_changes_nothing(
    ocb: Ocb, ask: Callable[..., Any], zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    barclamp, file = tmp_path / "lab.yml", tmp_path / N1
    barclamp.write_text(BARCLAMP.format(folder=tmp_path))
    assert ocb("barclamp", "import", str(barclamp)).exit_code == 0
    with lab(ocb, zk_settings, tmp_path, machines=1):
        assert ocb("node", "bind", N1, "below").exit_code == 0
        assert ocb("node", "bind", N1, "broken").exit_code == 0
        assert ocb("node", "commit", N1, "--wait", "--timeout", "120").exit_code == 0
        before = ask("noderole", "show", f"note@{N1}")
        assert ask("noderole", "check", f"note@{N1}", "--wait", "--timeout", "60")["in_sync"] == 1
        assert state(ask, "below") == "ACTIVE", "what is below it did not move"
        after = ask("noderole", "show", f"note@{N1}")
        kept = ("state", "since", "run", "epoch", "given", "attributes", "refresh")
        assert {key: after[key] for key in kept if key in after} == {key: before[key] for key in kept if key in before}

        file.write_text("by hand\n")
        answer = ocb("noderole", "check", "-l", "deployment:lab", "--wait", "--timeout", "60")
        assert answer.exit_code == 10, answer.output
        assert "0 in sync, 1 drifted, 1 unknown" in answer.stderr
        [difference] = [each for each in answer.stdout.splitlines() if each.startswith("note@")]
        assert f"{file}; -by hand" in difference
        assert "17" not in difference.partition("drifted")[2].split()[0], "an age, not seconds since 1970"
        assert file.read_text() == "by hand\n"
        shown = ocb("noderole", "drift", f"note@{N1}").stdout
        assert "-by hand" in shown
        assert "+first" in shown
        rows = ask("noderole", "drift")
        assert {row["noderole"]: row["drift"] for row in rows} == {f"broken@{N1}": "unknown", f"note@{N1}": "drifted"}
        [of_lab] = ask("status")["drift"]
        assert (of_lab["drifted"], of_lab["unknown"]) == (1, 1)
        assert "a check found its machine changed" in ocb("noderole", "explain", f"note@{N1}").stdout

        assert ocb("noderole", "refresh", f"note@{N1}", "--wait", "--timeout", "60").exit_code == 0
        assert file.read_text() == "first\n"
        assert [row["noderole"] for row in ask("noderole", "drift")] == [f"broken@{N1}"]

        file.write_text("again\n")
        assert ocb("deployment", "checks", "lab", "--schedule", "0 3 * * *", "--refresh").exit_code == 0
        assert ocb("noderole", "check", f"note@{N1}", "--wait", "--timeout", "60").exit_code in (0, 10)
        assert ocb("noderole", "wait", f"note@{N1}", "--timeout", "60").exit_code == 0
        until_text(file, "first\n", ask)


def until_text(file: Path, text: str, ask: Callable[..., Any]) -> None:
    import time

    deadline = time.monotonic() + 60
    while file.read_text() != text or state(ask, "note") != "ACTIVE":
        assert time.monotonic() < deadline, file.read_text()
        time.sleep(0.1)


def state(ask: Callable[..., Any], role: str) -> str:
    return str(ask("noderole", "show", f"{role}@{N1}")["state"])


# -- by a schedule --


def test_a_check_prints_no_secret_that_is_in_use_until_the_new_one_is_committed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, new, path = "live-Zq7-password", "new-Wd55-password", paths.user("looked", fleet.nodes[0])
    for name, value in (("LIVE", live), ("NEW", new)):
        monkeypatch.setenv(f"NODEPOOL_OCB_SECRET_{name}", value)
    file = fleet.folder / "db.conf"
    write = f'. "$OCB_LIBRARY"; read_attribute db/password >"{file}"'
    look = f'. "$OCB_LIBRARY"; read_attribute db/password | diff -u "{file}" - || exit 10'
    fleet.add_role("looked", replace(fleet.work(0.0, write), check=look))
    noderole = fleet.bind("looked", fleet.nodes[0])
    fleet.session.commit([Create(path, {"db": {"password": {"$secret": "env:NODEPOOL_OCB_SECRET_LIVE"}}})])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    fleet.session.commit([Set(path, {"db": {"password": {"$secret": "env:NODEPOOL_OCB_SECRET_NEW"}}}, 0)])
    for event, drift in ((Event.CHECK, Drift.UNKNOWN), (Event.REFRESH, None), (Event.CHECK, Drift.IN_SYNC)):
        before = fleet.record(noderole).run, fleet.record(noderole).checked
        fleet.happens(noderole, event)
        fleet.until(lambda before=before: (fleet.record(noderole).run, fleet.record(noderole).checked) != before, event)
        fleet.until_state(noderole, State.ACTIVE)
        if drift is not None:
            fleet.until(lambda drift=drift: fleet.record(noderole).drift is drift, drift)
    recorded = str(fleet.runs(noderole))
    assert "db/password: changed since its newest run, and secret" in recorded
    assert live not in recorded
    assert new not in recorded
    assert file.read_text().strip() == new


def checkable(fleet: Fleet) -> str:
    fleet.add_role("looked", replace(fleet.work(0.0), check="true"))
    noderole = fleet.bind("looked", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    return noderole


def scheduled(fleet: Fleet, noderole: str, at: float | None = None, **fields: Any) -> None:
    """A schedule of every minute that stands for long, and a noderole that has been ACTIVE for as long.

    ``at``: its newest check was then.
    """

    def changes(world: World) -> list[Change]:
        vertex = world.vertex(noderole)
        assert vertex is not None
        stored = world.deployments[vertex.record.deployment]
        checks = Checks(schedule="* * * * *", since=1.0, **fields)
        checked = vertex.record.checked if at is None else replace(vertex.record.checked, at=at)
        record = vertex.record.amended(since=2.0, checked=checked)
        return [
            Set(paths.deployment(vertex.record.deployment), replace(stored.record, checks=checks), stored.version),
            Set(paths.noderole(vertex.role, vertex.node.name), record, vertex.version),
        ]

    fleet.write(changes)


def test_what_is_due_by_a_schedule_is_checked_once_a_tick(fleet: Fleet) -> None:
    noderole = checkable(fleet)
    began = fleet.session.now()
    scheduled(fleet, noderole)
    fleet.until(lambda: fleet.record(noderole).drift is Drift.IN_SYNC, "it is checked")
    first = fleet.record(noderole).checked
    assert first is not None
    runs = [run.outcome for run in fleet.runs(noderole).values()]
    ticks = int(fleet.session.now() // 60) - int(began // 60)  # a minute may begin while the test runs
    assert 2 <= fleet.starts()[noderole] <= 2 + ticks, "once for itself, once for its check"
    assert fleet.record(noderole).since == 2.0
    assert runs[:2] == ["succeeded", "in-sync"]
    assert len(runs) <= 2 + ticks


def test_a_refresh_that_changes_nothing_is_reported_and_not_repeated(fleet: Fleet) -> None:
    fleet.add_role("looked", replace(fleet.work(0.0), check="echo odd; exit 2"))
    noderole = fleet.bind("looked", fleet.nodes[0])
    fleet.annealer().begin()
    fleet.until_state(noderole, State.ACTIVE)
    scheduled(fleet, noderole, refresh=True)
    fleet.until(lambda: unmended(fleet, noderole), "the schedule has it run again once, and looks at once")
    checked = fleet.record(noderole).checked
    scheduled(fleet, noderole, refresh=True, at=3.0)
    fleet.until(lambda: fleet.record(noderole).checked not in (checked, replace(checked, at=3.0)), "the next tick")
    assert unmended(fleet, noderole)
    assert [run.outcome for run in fleet.runs(noderole).values()].count("succeeded") == 2
    assert fleet.record(noderole).state is State.ACTIVE


def unmended(fleet: Fleet, noderole: str) -> bool:
    checked = fleet.record(noderole).checked
    return checked is not None and checked.unmended


def test_a_check_whose_secret_cannot_be_opened_ends_as_unknown_and_holds_nothing_up(fleet: Fleet) -> None:
    noderole = checkable(fleet)
    own_run, path = fleet.record(noderole).run, paths.user("looked", fleet.nodes[0])
    for reference in ("env:NODEPOOL_OCB_SECRET_NOWHERE", "env:OTHER"):  # not on this host, and nowhere
        before, znode = fleet.record(noderole).checked, fleet.session.get(path)
        value = {"db": {"password": {"$secret": reference}}}
        fleet.session.commit([Set(path, value, znode.version) if znode else Create(path, value)])
        fleet.happens(noderole, Event.CHECK)
        fleet.until(lambda before=before: fleet.record(noderole).checked != before, reference)
        record = fleet.record(noderole)
        assert (record.state, record.drift, record.run) == (State.ACTIVE, Drift.UNKNOWN, own_run)
        assert record.checked is not None
        assert reference.partition(":")[2] in str(fleet.runs(noderole)[record.checked.run].reason)
    assert fleet.starts()[noderole] == 1
    fleet.until(lambda: not fleet.claim_stands(fleet.nodes[0]), "the node is free")

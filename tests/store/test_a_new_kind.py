"""A record kind is one struct and one row (tests/store/added_kind.py): all that reads the table works for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.chroots import fresh

ROOT: Final = Path(__file__).parents[2]
PATH: Final = "/ocb/racks/r1"


@pytest.fixture(scope="module")
def facts(zookeeper: Server) -> dict[str, Any]:
    """The facts that the process with the new kind prints."""
    words = [sys.executable, "-m", "tests.store.added_kind", f"{zookeeper.hosts}{fresh('test-a-new-kind')}"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_world_puts_copies_and_drops_it(facts: dict[str, Any]) -> None:
    assert (facts["put"], facts["copied"], facts["dropped"]) == ({"r1": "on"}, ["r1"], [True, False])


def test_a_load_shows_it(facts: dict[str, Any]) -> None:
    assert (facts["loaded"], facts["wakes at load"]) == ({"r1": "off"}, True)


@pytest.mark.parametrize("change", ["a change", "a new one", "a deletion"])
def test_a_cache_reports_what_others_write(facts: dict[str, Any], change: str) -> None:
    assert facts[f"wakes at {change}"]


def test_a_cache_shows_its_own_write(facts: dict[str, Any]) -> None:
    assert facts["own write"] == "standby"


def test_a_deletion_carries_the_version_that_was_judged(facts: dict[str, Any]) -> None:
    assert facts["judged"] == [[PATH, 2]]


def test_one_that_cannot_be_read_is_reported_and_keeps_the_last_good_record(facts: dict[str, Any]) -> None:
    assert (facts["wakes when unreadable"], facts["last good"]) == (True, "standby")
    assert (facts["wakes when mended"], facts["mended"]) == (True, "mended")


def test_the_quarantine_names_it(facts: dict[str, Any]) -> None:
    assert (facts["kind"], facts["unreadable"]) == ("Rack", [PATH])


def test_a_sweep_drops_it(facts: dict[str, Any]) -> None:
    assert facts["swept"] == []


def test_its_folder_has_the_rights_of_its_row(facts: dict[str, Any]) -> None:
    assert facts["rights"] == ["/ocb/racks", "r", "cdrw", ""]


def test_people_see_its_name(facts: dict[str, Any]) -> None:
    assert facts["people"] == ["create", "rack", "r1"]


def test_the_page_of_records_has_its_row_and_its_keys(facts: dict[str, Any]) -> None:
    assert "| [Rack](#rack) | rack | `/ocb/racks/{rack}` | each write |" in facts["page"]
    assert "| `power` | `str` | `'off'` | on or off |" in facts["page"]


def test_damaged_records_of_it_are_tried(facts: dict[str, Any]) -> None:
    assert facts["village"] == ["/ocb/racks/victim"]

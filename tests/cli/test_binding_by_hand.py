"""What people are told when they bind: parents that are taken from other nodes, and conflicts with their way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.model.records import Json
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1, N2 = "n1.example.com", "n2.example.com"

BARCLAMP = """\
barclamp: {name: sites, version: 1}
roles:
  - {name: server, jig: noop}
  - {name: os, jig: noop, flags: [implicit]}
  - {name: mon, jig: noop, flags: [cluster]}
  - {name: client, jig: noop, requires: [server, os, mon]}
  - {name: new, jig: noop, flags: [discovery], requires: [server]}
  - {name: chrony, jig: noop, provides: [ntp]}
  - {name: ntpd, jig: noop, provides: [ntp]}
"""


@pytest.fixture
def sites(ocb: Ocb, tmp_path: Path) -> Ocb:
    """Nodes n1 and n2 in deployment system, with server@n2 and mon@n2."""
    (tmp_path / "sites.yml").write_text(BARCLAMP.replace("[discovery]", "[]"))
    for line in (
        f"barclamp import {tmp_path / 'sites.yml'}",
        f"node create {N1}",
        f"node create {N2}",
        f"node bind {N2} server",
        f"node bind {N2} mon",
    ):
        assert ocb(*line.split()).exit_code == 0, line
    return ocb


def test_a_parent_that_is_taken_from_another_node_is_named_when_it_is_bound(sites: Ocb, ask: Ask) -> None:
    answer = sites("node", "bind", N1, "client")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr.splitlines() == [
        f"client@{N1} ← mon@*system: every one of role mon in deployment system",
        f"client@{N1} ← server@{N2}: the first of role server in deployment system",
    ], "what is on the same node is not named"
    assert sites("node", "bind", N1, "client").stderr.splitlines() == [f"nothing to do; unchanged: client@{N1}"]
    assert sites("node", "bind", N1, "client", "-o", "name").stdout.split() == [f"client@{N1}"]
    again = ask("node", "bind", N1, "client")
    kept = {"change": "keep", "kind": "noderole", "name": f"client@{N1}", "state": "PROPOSED"}
    assert (again["changes"], again["kept"]) == ([], [kept])
    document = ask("node", "bind", N2, "client", "--dry-run", exit_code=10)
    assert len(document["explanations"]) == 3


def test_what_a_new_node_takes_from_another_is_named_when_it_is_created(sites: Ocb, tmp_path: Path) -> None:
    (tmp_path / "sites.yml").write_text(BARCLAMP)
    assert sites("barclamp", "import", str(tmp_path / "sites.yml")).exit_code == 0
    answer = sites("node", "create", "n3.example.com")
    assert answer.exit_code == 0, answer.output
    assert "new@n3.example.com ← server@n2.example.com: the first of role server" in answer.stderr


def test_of_many_notes_the_first_are_said_and_the_rest_counted(sites: Ocb, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "sites.yml").write_text(BARCLAMP)
    assert sites("barclamp", "import", str(tmp_path / "sites.yml")).exit_code == 0
    said = sites("node", "create", "m{}.example.com", "--count", "14").stderr.splitlines()
    assert (len(said), said[-1]) == (13, "2 notes more; -o json has all")
    assert len(ask("node", "create", "k{}.example.com", "--count", "14")["explanations"]) == 14


def test_a_new_member_of_a_cluster_names_what_was_bound_before_and_waits_for_it(sites: Ocb) -> None:
    names = [f"n{number}.example.com" for number in range(3, 6)]
    for line in (f"node bind {N1} client", *(f"node create {name}" for name in names)):
        assert sites(*line.split()).exit_code == 0
    said = (
        "mon@{0}: it is a new member of cluster mon in deployment system; the noderoles below wait until it is ACTIVE\n"
    )
    assert sites("node", "bind", names[0], "mon").stderr == f"client@{N1} ← {said.format(names[0])}"
    for name in names[:2]:
        assert sites("node", "bind", name, "client").exit_code == 0
    answer = sites("node", "bind", names[2], "mon").stderr
    assert answer == f"client@{N1}, client@{names[0]} and 1 other ← {said.format(names[2])}"


def test_two_roles_for_new_nodes_that_conflict_are_named_with_their_flag(ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "two.yml").write_text(
        "barclamp: {name: two, version: 1}\nroles:\n  - {name: left, jig: noop, flags: [discovery]}\n"
        "  - {name: right, jig: noop, conflicts: [left], flags: [discovery]}\n"
    )
    assert ocb("barclamp", "import", str(tmp_path / "two.yml")).exit_code == 0
    answer = ocb("node", "create", N1)
    assert answer.exit_code == 4, answer.output
    assert "which the same bind brings" in answer.stderr
    assert "take the flag that binds them to new nodes away from left or right" in answer.stderr


def test_two_that_stand_in_for_a_third_are_a_conflict_on_one_node(sites: Ocb, ask: Ask) -> None:
    ask("node", "bind", N1, "chrony")
    answer = sites("node", "bind", N1, "ntpd")
    assert answer.exit_code == 4, answer.output
    assert f"unbind it first: nodepool-ocb noderole unbind chrony@{N1}" in answer.stderr
    ask("noderole", "unbind", f"chrony@{N1}", "--yes")
    ask("node", "bind", N1, "ntpd")

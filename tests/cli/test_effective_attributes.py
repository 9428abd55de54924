"""`noderole attributes`: what a jig would see, who says it, what that hides, and how it differs from another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import inputs
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Former, Given, Json, NodeRole, Run, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1, N2 = "n1.example.com", "n2.example.com"


@pytest.fixture
def sizes(world: Session, ocb: Ocb) -> Session:
    """middle/size: 1 by default, 5 in deployment lab, 7 at middle@n1; its wall says more, and one long thing."""
    for line in (
        "deployment set lab middle middle-size=5",
        f"noderole set middle@{N1} middle/size=7",
        f"node create {N2} --deployment lab",
        f"node bind {N2} top",
    ):
        assert ocb(*line.split()).exit_code == 0, line
    world.commit([Create(paths.wall("middle", N1), {"middle": {"found": "x" * 200}, "esc": "\x1b[2J"})])
    return world


@pytest.mark.usefixtures("sizes")
def test_each_value_is_shown_with_its_layer_and_on_demand_with_what_it_hides(ocb: Ocb) -> None:
    plain = ocb("noderole", "attributes", f"middle@{N1}", "middle-size").stdout.splitlines()
    assert [line.split() for line in plain] == [
        ["PLACE", "VALUE", "LAYER"],
        ["middle/size", "7", "user", "of", f"middle@{N1}"],
    ]
    explained = ocb("noderole", "attributes", f"middle@{N1}", "--explain").stdout
    assert explained.splitlines()[-6:] == [
        "middle/size: 7",
        f"    user of middle@{N1}",
        "    hides 5",
        "        deployment: role middle of lab",
        "    hides 1",
        "        default of role middle",
    ]
    assert max(map(len, explained.splitlines())) <= 80
    assert "\x1b" not in explained


@pytest.mark.usefixtures("sizes")
def test_a_child_sees_what_its_ancestors_say(ask: Ask) -> None:
    document = ask("noderole", "attributes", f"top@{N1}", "middle/size")
    assert document["attributes"] == {"middle": {"size": 7}}
    (row,) = document["values"]
    said = {key: row[key] for key in ("place", "value", "kind", "subject", "origin", "by")}
    middle = f"middle@{N1}"
    assert said == {
        "place": "middle/size", "value": 7, "kind": "user", "subject": middle, "origin": "ancestor", "by": middle
    }  # fmt: skip
    assert [hidden["value"] for hidden in row["hides"]] == [5, 1]


@pytest.mark.usefixtures("sizes")
def test_two_noderoles_are_compared_value_by_value(ocb: Ocb, ask: Ask) -> None:
    document = ask("noderole", "attributes", f"middle@{N1}", "middle", "--diff", f"middle@{N2}")
    assert [(row["place"], row.get("one"), row.get("other")) for row in document["differences"]] == [
        ("middle/found", "x" * 200, None),
        ("middle/size", 7, 5),
    ]
    assert ocb("noderole", "attributes", f"middle@{N1}", "middle/size", "--diff", f"middle@{N2}").stdout == (
        f"middle/size\n    middle@{N1}: 7\n        user of middle@{N1}\n"
        f"    middle@{N2}: 5\n        deployment: role middle of lab\n"
    )
    same = ocb("noderole", "attributes", f"base@{N1}", "--diff", f"base@{N2}")
    assert (same.exit_code, same.stdout.strip()) == (0, "")
    assert "see the same" in same.stderr


@pytest.mark.usefixtures("sizes")
def test_a_place_at_which_nothing_is_seen_is_told(ocb: Ocb) -> None:
    answer = ocb("noderole", "attributes", f"middle@{N1}", "middle/sizes")
    assert answer.exit_code == 3
    assert "sees nothing at middle/sizes" in answer.stderr


FIRST, FAILED, LAST = "0000000001-a1", "0000000002-a2", "0000000003-a3"


def run(outcome: str = "succeeded", **more: Any) -> Run:
    return Run(annealer="a", started=1.0, ended=2.0, outcome=outcome, generation=1, epoch=1, **more)


@pytest.fixture
def ran(world: Session) -> Session:
    """base@n1 has run three times: with a/b 1 and no a/c, in vain, and with a/b 2 and a/c 3."""
    path = paths.noderole("base", N1)
    znode = world.get(path)
    assert znode is not None
    record = replace(codec.decode(NodeRole, znode), given=12)
    noted = Former(given=11, changes=((("attributes", "a", "b"), 1),), gone=(("attributes", "a", "c"),))
    runs = {FIRST: run(given=11), FAILED: run("failed"), LAST: run(given=12, former=noted)}
    world.commit(
        [
            Set(path, record, znode.version),
            Create(paths.given("base", N1), Given(jig="test", attributes={"a": {"b": 2, "c": 3}})),
            *(Create(paths.run("base", N1, name), each) for name, each in runs.items()),
        ]
    )
    return world


@pytest.mark.usefixtures("ran")
def test_two_runs_are_compared_in_what_they_were_given(ocb: Ocb, ask: Ask) -> None:
    answer = ocb("noderole", "attributes", f"base@{N1}", "--runs", FIRST, LAST)
    assert answer.stdout == (f"a/b\n    {FIRST}: 1\n    {LAST}: 2\na/c\n    {FIRST}: not set\n    {LAST}: 3\n"), (
        answer.output
    )
    turned = ask("noderole", "attributes", f"base@{N1}", "--runs", LAST, FIRST)
    assert [(row["place"], row.get("one"), row.get("other")) for row in turned["differences"]] == [
        ("a/b", 2, 1),
        ("a/c", 3, None),
    ]


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("line", "exit_code", "said"),
    [
        (["--runs", FIRST, "other"], 3, f"has no run other; it has: {FIRST}, {FAILED}, {LAST}"),
        (["--runs", FAILED, LAST], 3, f"the inputs of {FAILED} are not kept: it failed"),
        (["--runs", FIRST, LAST, "--changed"], 2, "stands alone"),
        (["--runs", FIRST, LAST, "a/b"], 2, "stands alone"),
        (["--reveal", "--diff", f"base@{N2}"], 2, "leave --diff away"),
    ],
)
def test_incomparable_runs_are_reported(ocb: Ocb, line: list[str], exit_code: int, said: str) -> None:
    answer = ocb("noderole", "attributes", f"base@{N1}", *line)
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True), answer.output


def test_a_run_of_which_it_is_not_known_what_it_was_given_is_told(ran: Session, ocb: Ocb) -> None:
    znode = ran.get(paths.run("base", N1, LAST))
    assert znode is not None
    ran.commit([Set(znode.path, run(given=12, former=Former(given=11, reason="too much")), znode.version)])
    answer = ocb("noderole", "attributes", f"base@{N1}", "--runs", FIRST, LAST)
    assert (answer.exit_code, f"the inputs of {FIRST} are not known: too much" in answer.stderr) == (3, True)


def test_two_runs_of_one_number_were_given_the_same_though_that_is_not_known(ran: Session, ocb: Ocb) -> None:
    name = "0000000002-b1"
    ran.commit([Create(paths.run("base", N1, name), run(given=11))])
    znode = ran.get(paths.run("base", N1, LAST))
    assert znode is not None
    ran.commit([Set(znode.path, run(given=12, former=Former(given=11, reason="too much")), znode.version)])
    answer = ocb("noderole", "attributes", f"base@{N1}", "--runs", FIRST, name)
    assert (answer.exit_code, "were given the same" in answer.stderr) == (0, True), answer.output


def test_of_two_runs_that_were_taken_over_it_is_not_said_that_they_were_given_the_same(ran: Session, ocb: Ocb) -> None:
    one, other = "0000000004-b1", "0000000005-b2"
    given = ran.get(paths.given("base", N1))
    assert given is not None
    ran.commit(
        [
            Set(given.path, Given(jig="test", reason="it was taken over"), given.version),
            *(Create(paths.run("base", N1, name), run(given=inputs.UNKNOWN)) for name in (one, other)),
        ]
    )
    answer = ocb("noderole", "attributes", f"base@{N1}", "--runs", one, other)
    assert (answer.exit_code, f"the inputs of {one} are not known" in answer.stderr) == (3, True), answer.output

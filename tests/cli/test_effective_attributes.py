"""`noderole attributes`: what a jig would see, who says it, what that hides, and how it differs from another's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Json
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

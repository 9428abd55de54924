"""The catalogue of roles and their attributes."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.catalogue import rules
from nodepool_ocb.documents.cycles import components
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Attrib, Role


def role(**fields: Any) -> Role:
    return Role(**{"barclamp": "b", "jig": "noop", **fields})


SERVERS = Attrib(name="servers", map="ntp/servers", schema={"type": "array", "items": {"type": "string"}})
CATALOGUE = {
    "ntp": role(attribs=(SERVERS, Attrib(name="zone", map="ntp/zone")), template={"ntp": {"zone": "UTC", "x": 1}}),
    "chrony": role(
        provides=("ntp",),
        requires=("base",),
        attribs=(Attrib(name="zone", map="chrony/zone"),),
        template={"ntp": {"x": 2}},
    ),
    "base": role(),
    "top": role(requires=("chrony", "gone")),
}


def test_ancestry_is_what_a_role_depends_on() -> None:
    assert rules.ancestry(CATALOGUE, "top") == {"chrony", "base"}
    assert rules.ancestry({"a": role(requires=("a",))}, "a") == {"a"}


def test_a_role_below_one_that_stands_in_for_the_same_is_warned_of() -> None:
    catalogue = {
        "chrony": role(provides=("ntp",)),
        "clock": role(requires=("chrony",), provides=("ntp",)),
        "ntp": role(),
    }
    assert [str(finding) for finding in rules.loose_ends(catalogue)] == [
        "role clock: depends on chrony, and both stand in for ntp: it can be bound only where chrony is on another node"
    ]


def test_a_role_has_the_attributes_of_what_it_provides_and_its_own_go_first() -> None:
    found = rules.attributes(CATALOGUE, "chrony")
    assert {name: attrib.map for name, attrib in found.items()} == {"servers": "ntp/servers", "zone": "chrony/zone"}
    assert rules.template(CATALOGUE, "chrony") == {"ntp": {"zone": "UTC", "x": 2}}


def test_a_key_is_an_attribute_or_a_place() -> None:
    assert rules.attribute_path(CATALOGUE, "chrony", "servers") == "ntp/servers"
    assert rules.attribute_path(CATALOGUE, "chrony", "a/b/0") == "a/b/0"
    with pytest.raises(NotFound, match="role chrony has no attribute server; did you mean `servers`"):
        rules.attribute_path(CATALOGUE, "chrony", "server")
    with pytest.raises(NotFound, match="role base has no attribute x; it has: none"):
        rules.attribute_path(CATALOGUE, "base", "x")
    with pytest.raises(NotFound, match="role chrny is not known; did you mean `chrony`"):
        rules.attributes(CATALOGUE, "chrny")


@pytest.mark.parametrize(
    ("blob", "below", "faults"),
    [
        ({"ntp": {"servers": ["a"]}}, {}, []),
        ({"other": 1}, {"ntp": {"servers": 7}}, []),  # not what is set now
        ({"ntp": {"servers": ["a", 1]}}, {}, ["role ntp: attribute servers (ntp/servers): 1: must be text, and is 1"]),
        ({"ntp": {"servers": "a"}}, {}, ['role ntp: attribute servers (ntp/servers): must be a list, and is text "a"']),
    ],
)
def test_values_are_checked_against_the_schemas_of_what_they_set(blob: Any, below: Any, faults: list[str]) -> None:
    assert rules.faults(CATALOGUE, "ntp", blob, below) == faults
    if faults:
        with pytest.raises(Invalid):
            rules.checked(CATALOGUE, "ntp", blob, below)


def test_a_part_of_a_value_is_checked_as_it_is_on_top_of_what_is_below() -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"b": {"type": "integer"}}}
    catalogue = {"r": role(attribs=(Attrib(name="m", map="m", schema=schema),))}
    assert rules.faults(catalogue, "r", {"m": {"b": 2}}, {"m": {"a": 1}}) == []
    assert rules.faults(catalogue, "r", {"m": {"b": 2}}) == ["role r: attribute m (m): key `a` is missing; add it"]


def test_check_tells_problems_as_sentences() -> None:
    assert rules.check(CATALOGUE) == []
    assert rules.check({"a": role(requires=("b",)), "b": role(requires=("a",)), "c": role(conflicts=("c",))}) == [
        "role a: roles require each other in a circle: a -> b -> a; take one of these requirements away",
        "role c: a role that conflicts itself says nothing; take it away",
    ]


_graphs = st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefg"), max_size=4), max_size=7)


@given(_graphs)
def test_each_knot_has_a_real_circle_and_none_is_shorter(graph: dict[str, list[str]]) -> None:
    whole: nx.DiGraph[str] = nx.DiGraph(
        {name: [each for each in needs if each in graph] for name, needs in graph.items()}
    )
    lengths: dict[frozenset[str], int] = {}
    for names in nx.strongly_connected_components(whole):
        circles = list(nx.simple_cycles(whole.subgraph(names)))
        if circles:
            lengths[frozenset(names)] = min(map(len, circles))
    found = components(graph)
    assert {knot.names: len(knot.circle) - 1 for knot in found} == lengths
    for knot in found:
        assert knot.circle[0] == knot.circle[-1]
        assert all(after in graph[before] for before, after in zip(knot.circle, knot.circle[1:], strict=False))


@given(_graphs, st.randoms())
def test_knots_do_not_depend_on_the_order_of_names(graph: dict[str, list[str]], random: Any) -> None:
    names = list(graph)
    random.shuffle(names)
    assert components({name: graph[name] for name in names}) == components(graph)


def test_a_plain_value_leaves_no_room_for_the_attributes_inside_it() -> None:
    assert rules.faults(CATALOGUE, "ntp", {"ntp": 5}) == [
        "role ntp: ntp: must be a mapping, and is 5; inside it: servers, zone"
    ]
    assert rules.faults(CATALOGUE, "ntp", {"ntp": {"x": 5}}) == []


def test_a_plain_value_above_an_attribute_is_a_slip_at_its_own_place() -> None:
    catalogue = {"ntp": role(attribs=(Attrib(name="servers", map="ntp/pool/servers"),))}
    (slip,) = rules.slips(catalogue, "ntp", {"ntp": {"pool": 5}})
    assert slip.startswith("role ntp declares nothing at ntp/pool; ")
    assert rules.slips(catalogue, "ntp", {"ntp": {"pool": {"servers": []}}}) == []

"""Effective attributes: what a jig sees, value by value, each with the layer that says it and with what it hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.engine import inputs
from nodepool_ocb.engine.attributes import merge
from nodepool_ocb.engine.inputs.effective import Effective, below, effective, unlike
from nodepool_ocb.engine.inputs.layers import AttributeLayer, Brought, LayerKind, Origin
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import DeploymentRole, Json, Node, NodeRole, Role, State

N1, N2 = "n1.example.com", "n2.example.com"


def world() -> World:
    """server@n2 above app@n1, which has beside@n1 beside it; all ACTIVE, in deployment lab."""
    made = World()
    for name in ("server", "beside", "app"):
        role = Role(barclamp="b", jig="noop", template={"zone": f"of role {name}", name: 1})
        made.put(Stored(role, 0), name)
    made.put(Stored(DeploymentRole(user={"zone": "of lab"}), 0), "lab", "app")
    for fqdn in (N1, N2):
        made.put_node(fqdn, Node(deployment="lab", hints={"zone": f"of {fqdn}"}), 0)
    for name, above in {f"server@{N2}": (), f"beside@{N1}": (), f"app@{N1}": (f"server@{N2}",)}.items():
        role, fqdn = paths.split_noderole(name)
        record = NodeRole(state=State.ACTIVE, since=0.0, deployment="lab", parents=above)
        made.put_noderole(fqdn, role, record, 0)
    return made


def seen(made: World, name: str, blobs: inputs.Blobs) -> list[Effective]:
    vertex = made.vertex(name)
    assert vertex is not None
    return effective(inputs.brought(inputs.sources(made, vertex, made.role_of(vertex)), blobs))


def by_hand(*layers: Json) -> list[Effective]:
    """What is seen of these, the weakest first; the layer's subject is its number."""
    return effective(
        Brought(Origin.OWN, "x", AttributeLayer(LayerKind.USER, str(number), v)) for number, v in enumerate(layers)
    )


def summary(found: list[Effective]) -> dict[str, tuple[Json, str, list[tuple[str, Json, str]]]]:
    """By place: the value, the number of the layer that says it, and what is hidden: place, value, number."""
    return {
        each.place: (
            each.said.value,
            each.said.brought.layer.subject,
            [(hidden.place, hidden.value, hidden.brought.layer.subject) for hidden in each.hides],
        )
        for each in found
    }


def test_each_value_has_its_layer_and_what_it_hides_down_to_the_node() -> None:
    blobs = {paths.user("app", N1): {"zone": "mine"}, paths.wall("server", N2): {"zone": "walled", "server": 2}}
    zone, *others = reversed(seen(world(), f"app@{N1}", blobs))
    assert [(each.value, str(each.brought)) for each in (zone.said, *zone.hides)] == [
        ("mine", f"user of app@{N1}"),
        ("of lab", "deployment: role app of lab"),
        ("of role app", "default of role app"),
        ("walled", f"wall of server@{N2} (ancestor)"),
        ("of role server", f"default of role server (ancestor server@{N2})"),
        ("of role beside", f"default of role beside (beside beside@{N1})"),
        (f"of {N1}", f"hints of node {N1}"),
    ]
    assert {each.place: each.said.value for each in others} == {"app": 1, "beside": 1, "server": 2}


def test_a_value_hides_a_map_and_a_map_a_value() -> None:
    assert summary(by_hand({"a": {"b": 1}}, {"a": 5})) == {"a": (5, "1", [("a", {"b": 1}, "0")])}
    assert summary(by_hand({"a": 5}, {"a": {"b": 1}})) == {"a/b": (1, "1", [("a", 5, "0")])}
    hidden = [("a/b", 2, "2"), ("a", 5, "1"), ("a", {"b": 1}, "0")]
    assert summary(by_hand({"a": {"b": 1}}, {"a": 5}, {"a": {"b": 2}}, {"a": {"b": 3}})) == {"a/b": (3, "3", hidden)}
    assert summary(by_hand({"a": {"b": 1}}, {"a": {}})) == {"a/b": (1, "0", [])}
    assert summary(by_hand({"a": 1}, {"a": {}})) == {"a": ({}, "1", [("a", 1, "0")])}


def test_what_lies_below_a_place_is_found_and_not_its_namesake() -> None:
    found = by_hand({"ntp": {"a": 1}, "ntpd": 2})
    assert [each.place for each in below(found, ["ntp"])] == ["ntp/a"]
    assert [each.place for each in below(found, ["ntp/a"])] == ["ntp/a"]


def test_two_differ_by_values_and_not_by_who_says_them() -> None:
    one = by_hand({"a": 1, "same": [1], "only": 0}, {"b": 1})
    other = by_hand({"a": 1.0}, {"same": [1], "b": True})
    different = {
        each.place: (each.one and each.one.value, each.other and each.other.value) for each in unlike(one, other)
    }
    assert different == {"a": (1, 1.0), "b": (1, True), "only": (0, None)}


VALUES = st.recursive(
    st.integers(0, 2), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=6
)
LAYERS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=5)


def _tagged(value: Any, number: int) -> Any:
    return {key: _tagged(each, number) for key, each in value.items()} if isinstance(value, dict) else (value, number)


def _leaves(value: Any, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict) or not value:
        return {above: value}
    return {place: leaf for key, each in value.items() for place, leaf in _leaves(each, (*above, key)).items()}


@given(LAYERS)
def test_values_and_layers_are_those_of_a_merge_whose_values_say_where_they_are_from(layers: list[Json]) -> None:
    merged: dict[str, Json] = {}
    for number, each in enumerate(layers):
        merged = merge(merged, _tagged(each, number))
    expected = {place: leaf for place, leaf in _leaves(merged).items() if place}
    found = {each.said.steps: each for each in by_hand(*layers)}
    assert found.keys() == expected.keys()
    for place, leaf in expected.items():
        said = found[place].said
        if leaf == {}:
            assert said.value == {}
        else:
            assert (said.value, int(said.brought.layer.subject)) == leaf


@given(LAYERS)
def test_what_a_value_hides_is_what_each_weaker_layer_says_on_the_way_to_it(layers: list[Json]) -> None:
    for each in by_hand(*layers):
        weaker = layers[: int(each.said.brought.layer.subject)]
        assert [(said.steps, said.value) for said in each.hides] == list(_on_the_way(weaker, each.said.steps))


def _on_the_way(layers: list[Json], steps: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Where a layer has a value in place of a map, those below it are hidden there."""
    length = len(steps)
    for layer in reversed(layers):
        value, depth = layer, 0
        while depth < length and isinstance(value, dict) and steps[depth] in value:
            value, depth = value[steps[depth]], depth + 1
        if depth == length or not isinstance(value, dict):
            yield steps[:depth], value
            length = length if isinstance(value, dict) else depth

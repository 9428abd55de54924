"""Secrets among attributes: one leaf in every merge, told apart by their ids, and changed by no new key."""

from __future__ import annotations

from pathlib import Path

from nodepool_ocb.catalogue import barclamp
from nodepool_ocb.engine import attributes, inputs
from nodepool_ocb.engine.inputs import InputChange
from nodepool_ocb.engine.inputs.effective import effective
from nodepool_ocb.engine.world import Stored, Vertex, World
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.records import Attrib, Json, Node, NodeRole, Role, State
from nodepool_ocb.views import noderoles
from nodepool_ocb.views.attributes import effective as shown

NODE = "n1.example.com"
USER = paths.user("db", NODE)


def sealed(key: str, id: str, token: str = "gAAA") -> dict[str, Json]:
    return {"$secret": f"enc:{key * 8}:{id * 16}:{token}"}


def test_a_secret_is_merged_with_nothing() -> None:
    secret = sealed("a", "1")
    assert attributes.merge({"db": {"user": "x", "port": 1}}, {"db": secret}) == {"db": secret}
    assert attributes.merge({"db": secret}, {"db": {"user": "x"}}) == {"db": {"user": "x"}}
    assert attributes.merge({"db": secret}, {"db": sealed("b", "2")}) == {"db": sealed("b", "2")}


def vertex() -> Vertex:
    world = World()
    password = Attrib(name="p", map="p", secret=True)
    world.put(Stored(Role(barclamp="b", jig="script", script="x", attribs=(password,)), 0), "db")
    world.put_node(NODE, Node(), 0)
    return world.put_noderole(NODE, "db", NodeRole(state=State.ACTIVE, since=0.0), 0)


def judged(of: Vertex, secret: Json) -> inputs.Judged:
    role = of.node.world.roles["db"].record
    return inputs.judged(inputs.sources(of.node.world, of, role), {USER: {"p": secret}})


def test_a_new_key_makes_nothing_outdated_and_a_new_value_does() -> None:
    of = vertex()
    before = judged(of, sealed("a", "1", "gAAA"))
    assert judged(of, sealed("b", "1", "gBBB")) == before
    assert judged(of, sealed("a", "2", "gAAA")).number != before.number
    assert "gAAA" not in str(inputs.kept(before.given))


def test_what_is_outdated_for_a_secret_says_that_it_changed_and_nothing_else() -> None:
    of = vertex()
    before = judged(of, sealed("a", "1"))
    found = inputs.differences(of.node.world, of, {USER: {"p": sealed("a", "2")}}, before.given)
    assert [each.what for each in found] == ["p"]
    row = noderoles.outdated(of, found)
    assert row.different == f"p: the secret was changed (user of db@{NODE})"
    assert "enc:" not in str(row)
    first = noderoles.outdated(of, [InputChange("p", "old", {"$secret": "env:A"}, None)])
    assert first.different == 'p: "old" -> "(secret)"'


def test_people_are_shown_no_part_of_a_secret() -> None:
    assert secrecy.hidden({"a": [sealed("a", "1")], "b": 1}) == {"a": ["(secret)"], "b": 1}


BARCLAMP = """\
barclamp: {{name: shop, version: 1}}
roles:
  - name: db
    jig: noop
    attribs:
      - {{name: password, map: db/password, secret: true, default: {default}}}
"""


def test_a_default_of_a_secret_is_a_reference_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "shop.yml"
    file.write_text(BARCLAMP.format(default="hunter22"))
    (problem,) = barclamp.load([file]).problems
    assert "a secret must not have a default in a file" in problem
    assert "hunter22" not in problem
    file.write_text(BARCLAMP.format(default='{"$secret": "env:NODEPOOL_OCB_SECRET_DB"}'))
    assert barclamp.load([file]).roles["db"].attribs[0].secret


def test_a_secret_is_one_value_among_those_that_a_noderole_sees() -> None:
    of = vertex()
    sources = inputs.sources(of.node.world, of, of.node.world.roles["db"].record)
    seen = effective(inputs.brought(sources, {USER: {"p": sealed("a", "1"), "q": {"r": 1}}}))
    assert [each.place for each in seen] == ["p", "q/r"]
    document = shown.document(of.name, seen)
    assert [row.value for row in shown.short(document)] == ['"(secret)"', "1"]

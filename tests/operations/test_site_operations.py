"""Operations on site files, without a command line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.documents import document as documents
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.operations.nodes.changing import NodeMove, NodeSet
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.site import documents as sites
from nodepool_ocb.operations.site.applying import ApplySite, NodeImport
from nodepool_ocb.operations.site.exporting import ExportSite
from nodepool_ocb.site.desired_state import DesiredState
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import InterruptedPerformer, calm

N1, N2, N3 = "n1.example.com", "n2.example.com", "n3.example.com"
TWO = f"site: 1\ndeployments: {{lab: {{}}}}\nnodes:\n  {N1}: {{tags: [db]}}\n  {N2}: {{deployment: lab}}\n"
TABLE = f"fqdn,rack\n{N2},r2\n{N3},r3\n"


def wanted(text: str) -> DesiredState:
    return sites.wanted(documents.load_all(text, "site.yaml"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": {"": {"name": "", "place": {"file": "f", "line": 1}, "record": {"schema": 1, "barclamp": "b", "jig": "noop"}}}},
        {"deployments": {"Lab": {"name": "Lab", "place": {"file": "f", "line": 1}}}},
        {"deployments": {"lab": {"name": "web", "place": {"file": "f", "line": 1}}}},
        {"deployments": {"lab": {"name": "lab", "place": {"file": "f", "line": 1}, "roles": {"a/b": None}}}},
        {"nodes": {"n1..x": {"fqdn": "n1..x", "place": {"file": "f", "line": 1}}}},
    ],
)  # fmt: skip
def test_a_wanted_state_with_a_name_that_no_record_may_have_writes_nothing(
    world: Session, zk_settings: ZooKeeperSettings, wrong: Any
) -> None:
    before = tags(world)
    with pytest.raises(Invalid, match="is no name here"):
        calm(zk_settings).perform(ApplySite(wanted=msgspec.convert(wrong, DesiredState)))
    assert tags(world) == before


def tags(session: Session) -> dict[str, Any]:
    return {name: view.record and view.record.tags for name, view in sorted(load_world(session).nodes.items())}


def test_after_a_conflict_a_plan_that_stays_the_same_is_written_and_shown_one_time(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    other = NodeSet(nodes=(N1,), assignments=("rack=r9",))
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(other))
    mine.perform(ApplySite(wanted=wanted(TWO)))
    assert tags(world) == {N1: ("db",), N2: ()}
    assert mine.reads == 2
    assert mine.heard.notes == ["plan: 1 to change, 1 to create"]


def test_a_plan_with_a_step_that_was_not_shown_is_refused(world: Session, zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(deployment="lab")))
    other = NodeMove(nodes=(N2,), deployment="system")
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(other))
    with pytest.raises(Conflict, match=f"take more now: change node {N2}; 0 transactions were written"):
        mine.perform(ApplySite(wanted=wanted(TWO)))
    assert tags(world)[N1] == ("web",)


def test_a_plan_asks_for_agreement_to_its_deletions_one_time(world: Session, zk_settings: ZooKeeperSettings) -> None:
    for name in (N2, N3):
        calm(zk_settings).perform(NodeCreate(name=name, node=NewNode(deployment="lab")))
    other = NodeSet(nodes=(N3,), assignments=("rack=r9",))
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(other))
    mine.perform(ApplySite(wanted=wanted(TWO), prune=True))
    assert tags(world) == {N1: ("db",), N2: ()}
    assert (mine.heard.agreed, mine.reads > 1) == ([f"delete node {N3}"], True)


def test_a_dry_run_asks_for_no_agreement_and_a_refused_one_writes_nothing(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(NodeCreate(name=N3, node=NewNode(deployment="lab")))
    operation = ApplySite(wanted=wanted(TWO), prune=True)
    dry = calm(zk_settings, dry_run=True)
    assert {row.name for row in dry.perform(operation).rows} == {N1, N2, N3}
    assert dry.heard.agreed == []
    mine = calm(zk_settings)
    mine.heard.agrees = False
    with pytest.raises(Conflict, match="refused: delete node"):
        mine.perform(operation)
    assert tags(world) == {N1: ("web",), N3: ()}


def test_a_node_that_came_meanwhile_with_other_fields_is_refused_unless_the_import_updates(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    table = sites.nodes(TABLE, "nodes.csv", None, {})

    def other() -> None:
        calm(zk_settings).perform(NodeCreate(name=N3, node=NewNode(rack="r9")))

    mine = InterruptedPerformer(zk_settings, other)
    with pytest.raises(Conflict, match="exists already, with other rack"):
        mine.perform(NodeImport(wanted=table))
    assert N2 not in load_world(world).nodes
    calm(zk_settings).perform(NodeImport(wanted=table, update=True))
    found = load_world(world).nodes
    assert [(record := found[name].record) and record.rack for name in (N2, N3)] == ["r2", "r3"]


@pytest.mark.usefixtures("world")
def test_a_field_that_no_verb_takes_is_refused(zk_settings: ZooKeeperSettings) -> None:
    made = sites.nodes(TABLE, "nodes.csv", None, {})
    wrong = {name: replace(node, fields={**node.fields, "user": "-x"}) for name, node in made.nodes.items()}
    with pytest.raises(Invalid, match="is no login"):
        calm(zk_settings).perform(NodeImport(wanted=replace(made, nodes=wrong)))


def test_a_lost_answer_in_the_middle_of_a_plan_loses_and_repeats_nothing(
    world: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodepool_ocb.model.limits.MOST_CHANGES", 6)
    with lost_answer(zookeeper, at=2) as (proxy, met):
        table = "fqdn\n" + "".join(f"web{number}.example.com\n" for number in range(6))
        mine = calm(replace(zk_settings, hosts=proxy.hosts + chroot))
        done = mine.perform(NodeImport(wanted=sites.nodes(table, "nodes.csv", None, {})))
    names = [row.name for row in done.rows if row.kind == "node"]
    assert (len(met) > 2, names) == (True, [f"web{number}.example.com" for number in range(6)])
    assert {*names} <= load_world(world).nodes.keys()


@pytest.mark.usefixtures("world")
def test_an_export_of_a_part_has_its_nodes_and_is_not_whole(zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode()))
    part = calm(zk_settings).perform(ExportSite(selector="tag:web")).answer
    every = calm(zk_settings).perform(ExportSite()).answer
    assert (part.nodes, every.nodes) == ((N1,), (N1, N2))
    documents = [msgspec.json.decode(each.document) for each in (part, every)]
    assert ["whole" in each for each in documents] == [False, True]

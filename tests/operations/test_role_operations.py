"""Operations on roles and barclamps, without a command line."""

from __future__ import annotations

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Conflict, NotFound
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Create, Role
from nodepool_ocb.operations.barclamps.deleting import BarclampDelete
from nodepool_ocb.operations.nodes.binding import NodeBind
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.roles.deleting import RoleDelete
from nodepool_ocb.operations.roles.reading import RoleList, RoleShow
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from tests.operations.performing import InterruptedPerformer, calm

N1 = "n1.example.com"
DELETIONS = [RoleDelete(role="spare"), BarclampDelete(barclamp="spares")]


@pytest.fixture
def spare(world: Session) -> Session:
    """Beside the roles of ``world`` a role that is bound nowhere."""
    world.commit([Create(paths.role("spare"), Role(barclamp="spares", jig="noop"))])
    return world


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda each: each.title())
def test_a_role_that_is_bound_meanwhile_stays(
    spare: Session, zk_settings: ZooKeeperSettings, deletion: Operation[object]
) -> None:
    mine = InterruptedPerformer(zk_settings, lambda: calm(zk_settings).perform(NodeBind(nodes=(N1,), roles=("spare",))))
    with pytest.raises(Conflict, match=f"noderoles are bound: spare@{N1}"):
        mine.perform(deletion)
    assert "spare" in load_world(spare).roles


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda each: each.title())
def test_after_a_conflict_a_role_goes_with_one_agreement(
    spare: Session, zk_settings: ZooKeeperSettings, deletion: Operation[object]
) -> None:
    mine = InterruptedPerformer(
        zk_settings, lambda: calm(zk_settings).perform(NodeCreate(name="n2.example.com", node=NewNode()))
    )
    done = mine.perform(deletion)
    assert [(row.change, row.kind, row.name) for row in done.rows] == [("delete", "role", "spare")]
    assert (len(mine.heard.agreed), mine.reads) == (1, 2)
    assert "spare" not in load_world(spare).roles


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda each: each.title())
def test_a_dry_run_asks_for_no_agreement_and_a_refused_one_deletes_nothing(
    spare: Session, zk_settings: ZooKeeperSettings, deletion: Operation[object]
) -> None:
    dry = calm(zk_settings, dry_run=True)
    assert [row.name for row in dry.perform(deletion).rows] == ["spare"]
    assert dry.heard.agreed == []
    mine = calm(zk_settings)
    mine.heard.agrees = False
    with pytest.raises(Conflict, match="refused: delete "):
        mine.perform(deletion)
    assert "spare" in load_world(spare).roles


@pytest.mark.usefixtures("spare")
def test_roles_are_listed_and_shown(zk_settings: ZooKeeperSettings) -> None:
    found = calm(zk_settings).perform(RoleList(barclamp="spares")).answer
    assert [(row.name, row.barclamp) for row in found] == [("spare", "spares")]
    assert calm(zk_settings).perform(RoleShow(role="spare")).answer.record.jig == "noop"
    with pytest.raises(NotFound, match="did you mean `spare`"):
        calm(zk_settings).perform(RoleShow(role="spar"))

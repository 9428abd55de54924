"""Operations of noderoles and deployments without a command line: races, lost answers, and their extents."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine import deployments
from nodepool_ocb.errors import Conflict, NotFound, Stale
from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Change, Deployment, NodeRole, Set, State
from nodepool_ocb.operations.deployments.changing import DeploymentCommit, DeploymentCreate, DeploymentPropose
from nodepool_ocb.operations.deployments.configuring import DeploymentSet
from nodepool_ocb.operations.deployments.deleting import DeploymentDelete
from nodepool_ocb.operations.deployments.pausing import PauseAll, ResumeAll
from nodepool_ocb.operations.noderoles import awaiting
from nodepool_ocb.operations.noderoles.acting import NoderoleCommit, NoderoleRefresh, NoderoleRetry
from nodepool_ocb.operations.noderoles.destroying import NoderoleUnbind
from nodepool_ocb.operations.noderoles.reading import NoderoleList, NoderoleShow
from nodepool_ocb.operations.noderoles.setting import NoderoleSet
from nodepool_ocb.operations.nodes.binding import NodeBind
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.store.client.session import Session, Stats
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.lossy_proxy import lost_answer
from tests.operations.performing import InterruptedPerformer, calm, faster_writer

N1, N2 = "n1.example.com", "n2.example.com"
BASE, MIDDLE, TOP = f"base@{N1}", f"middle@{N1}", f"top@{N1}"


def states(session: Session) -> dict[str, State]:
    return {each.name: each.record.state for each in load_world(session).vertices()}


def becomes(session: Session, name: str, **fields: object) -> None:
    role, fqdn = paths.split_noderole(name)
    vertex = load_world(session).nodes[fqdn].noderoles[role]
    record: NodeRole = vertex.record.amended(**fields)
    session.commit([Set(paths.noderole(role, fqdn), record, vertex.version)])


# -- extents --


def test_an_unbind_goes_on_without_a_noderole_that_another_person_unbound(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    def other() -> None:
        calm(zk_settings).perform(NoderoleUnbind(noderoles=(TOP,)))

    mine = InterruptedPerformer(zk_settings, other)
    mine.perform(NoderoleUnbind(noderoles=(TOP, MIDDLE)))
    assert states(world).keys() == {BASE}
    with pytest.raises(NotFound, match="top"):
        calm(zk_settings).perform(NoderoleUnbind(noderoles=(TOP,)))


@pytest.mark.usefixtures("world")
def test_an_unbind_takes_away_no_more_than_was_agreed_to(zk_settings: ZooKeeperSettings) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(deployment="lab")))

    def other() -> None:
        calm(zk_settings).perform(NodeBind(nodes=(N2,), roles=("top",), parents=(MIDDLE,)))

    mine = InterruptedPerformer(zk_settings, other)
    with pytest.raises(Conflict, match=f"top@{N2} was bound below them meanwhile"):
        mine.perform(NoderoleUnbind(noderoles=(MIDDLE,)))
    assert len(mine.heard.agreed) == 1


def test_a_retry_goes_on_behind_its_first_transaction_and_waits_for_the_noderoles_of_both(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(NoderoleCommit(noderoles=(BASE, MIDDLE, TOP)))
    becomes(world, BASE, state=State.ERROR, reason="broken")
    becomes(world, MIDDLE, state=State.TODO, not_before=9e10)
    real, sent = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        sent.append(1)
        if len(sent) == 2:  # another writer is faster than the second transaction
            vertex = load_world(world).nodes[N1].noderoles["base"]
            real(world, [Set(paths.noderole("base", N1), replace(vertex.record, by="another"), vertex.version)])
        return real(session, changes)

    mine, operation = calm(zk_settings), NoderoleRetry(noderoles=(BASE, MIDDLE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "commit", commit)
        done = mine.perform(operation)
    assert (len(sent), mine.reads) == (3, 2)
    assert set(awaiting.names(load_world(world), operation.awaited(done.answer))) == {BASE, MIDDLE}
    assert states(world)[BASE] is State.TODO
    assert load_world(world).nodes[N1].noderoles["middle"].record.not_before == 0.0


def test_a_retry_of_all_failed_waits_for_those_that_an_attempt_before_moved(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(NodeCreate(name=N2, node=NewNode(deployment="lab")))
    calm(zk_settings).perform(NodeBind(nodes=(N2,), roles=("base",)))
    calm(zk_settings).perform(DeploymentCommit(name="lab"))
    for name in (BASE, f"base@{N2}"):
        becomes(world, name, state=State.ERROR, reason="broken")
    real, sent = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        sent.append(1)
        if len(sent) == 2:
            raise Stale("another writer was faster", paths.node(N1))
        return real(session, changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_CHANGES", 1)
        patch.setattr(Session, "commit", commit)
        done = calm(zk_settings).perform(NoderoleRetry(failed=True))
    assert set(done.answer.chosen) == {BASE, f"base@{N2}"}


# -- races --


def test_of_two_who_set_attributes_at_once_neither_is_lost(world: Session, zk_settings: ZooKeeperSettings) -> None:
    def other() -> None:
        calm(zk_settings).perform(NoderoleSet(noderoles=(MIDDLE,), assignments=("middle-size=5",)))

    mine = calm(zk_settings)
    with faster_writer(other):
        mine.perform(NoderoleSet(noderoles=(MIDDLE,), assignments=("other/key=6",)))
    shown = calm(zk_settings).perform(NoderoleShow(noderole=MIDDLE)).answer
    assert shown.attributes.user == {"middle": {"size": 5}, "other": {"key": 6}}
    assert mine.reads == 3  # two attempts, and the look after the change
    assert world.get(paths.user("middle", N1)) is not None


@pytest.mark.usefixtures("world")
def test_a_change_of_a_deployment_that_was_committed_meanwhile_is_refused(zk_settings: ZooKeeperSettings) -> None:
    def other() -> None:
        calm(zk_settings).perform(DeploymentCommit(name="lab", alone=True))

    mine = InterruptedPerformer(zk_settings, other)
    with pytest.raises(Conflict, match="deployment lab is COMMITTED; first: nodepool-ocb deployment propose lab"):
        mine.perform(DeploymentSet(name="lab", role="middle", assignments=("middle-size=5",)))


def test_a_commit_remembers_the_noderoles_that_an_attempt_before_made_run_again(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    calm(zk_settings).perform(DeploymentCommit(name="lab"))
    becomes(world, MIDDLE, state=State.ACTIVE, given=7)
    becomes(world, BASE, state=State.ACTIVE, given=0)
    calm(zk_settings).perform(DeploymentPropose(name="lab"))
    real, sent = Session.commit, list[int]()

    def commit(session: Session, changes: Sequence[Change]) -> Stats:
        if any(each.path == paths.deployment("lab") for each in changes) and not sent:
            sent.append(1)  # another writer is faster than the last transaction
            stored = load_world(world).deployments["lab"]
            real(world, [Set(paths.deployment("lab"), replace(stored.record, by="another"), stored.version)])
        return real(session, changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "commit", commit)
        mine = calm(zk_settings)
        done = mine.perform(DeploymentCommit(name="lab"))
    assert (sent, mine.reads) == ([1], 2)
    assert MIDDLE in done.answer.again
    record: Deployment = load_world(world).deployments["lab"].record
    assert record.state == "COMMITTED"


def test_everything_is_paused_though_another_person_changes_the_deployment(
    world: Session, zk_settings: ZooKeeperSettings
) -> None:
    def other() -> None:
        stored = load_world(world).deployments[deployments.SYSTEM]
        world.commit([Set(paths.deployment(deployments.SYSTEM), replace(stored.record, by="another"), stored.version)])

    mine = InterruptedPerformer(zk_settings, other)
    assert mine.perform(PauseAll(reason="a storm")).answer.lifts[0][1] == "nodepool-ocb resume"
    record = load_world(world).deployments[deployments.SYSTEM].record
    assert (record.pause.reason if record.pause else None, record.by, mine.reads) == ("a storm", "another", 2)
    calm(zk_settings).perform(ResumeAll())
    assert load_world(world).deployments[deployments.SYSTEM].record.pause is None


# -- lost answers --


def test_a_deletion_with_a_lost_answer_has_deleted_and_says_so(
    world: Session, zookeeper: Server, zk_settings: ZooKeeperSettings, chroot: str
) -> None:
    calm(zk_settings).perform(DeploymentCreate(name="spare"))
    with lost_answer(zookeeper) as (proxy, met):
        mine = calm(replace(zk_settings, hosts=proxy.hosts + chroot))
        done = mine.perform(DeploymentDelete(name="spare"))
    assert (len(met), [row.name for row in done.rows if row.kind == "deployment"]) == (1, ["spare"])
    assert "spare" not in load_world(world).deployments


# -- reading --


@pytest.mark.usefixtures("world")
def test_a_list_has_the_noderoles_that_its_fields_and_its_selector_mean(zk_settings: ZooKeeperSettings) -> None:
    def listed(operation: NoderoleList) -> list[str]:
        return [row.noderole for row in calm(zk_settings).perform(operation).answer.rows]

    assert listed(NoderoleList(role="middle")) == [MIDDLE]
    assert listed(NoderoleList(selector="role:top", states=("PROPOSED",))) == [TOP]
    assert listed(NoderoleList(selector="role:top", states=("ACTIVE",))) == []
    with pytest.raises(NotFound, match="nowhere"):
        listed(NoderoleList(deployment="nowhere"))


@pytest.mark.usefixtures("world")
def test_a_verb_refuses_a_named_noderole_in_another_state_and_leaves_out_a_selected_one(
    zk_settings: ZooKeeperSettings,
) -> None:
    with pytest.raises(Conflict, match=r"base@n1\.example\.com is PROPOSED; refresh is for ACTIVE"):
        calm(zk_settings).perform(NoderoleRefresh(noderoles=(BASE,)))
    assert calm(zk_settings).perform(NoderoleRefresh(selector="role:base")).rows == ()

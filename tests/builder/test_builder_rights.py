"""A builder with a user of its own, over TLS: it builds and uploads, and writes nothing below ``/ocb``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.errors import Denied
from nodepool_ocb.model import paths
from nodepool_ocb.model.images import BuildState, UploadState
from nodepool_ocb.model.records import (
    Change,
    Claim,
    Cluster,
    Create,
    Daemon,
    Delete,
    Deployment,
    DeploymentRole,
    DeploymentState,
    Fence,
    Gate,
    Node,
    NodeRole,
    Raise,
    Role,
    RolloutPointer,
    Run,
    Set,
    State,
    Structure,
)
from nodepool_ocb.model.rights import ClientKind
from nodepool_ocb.store import acls
from nodepool_ocb.store.client import frames
from nodepool_ocb.store.client.access import Acls
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import subtree
from nodepool_ocb.testing.zookeeper.guarded import Guarded
from tests.builder.fleet_of_builders import PATIENCE_SECONDS, BuilderFleet

N1, LAB = "n1.example.com", "lab"
ROOTS = Role(barclamp="evil", jig="script", script="id > /tmp/mine")
RECORD = NodeRole(state=State.TODO, since=1.0, deployment=LAB)
DAEMON = Daemon(host="h", pid=1, version="1", started=1.0)
RUN = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=1, epoch=1)

#: What people and annealers have made.
THERE: list[Change] = [
    Create(paths.role("base"), Role(barclamp="b", jig="noop")),
    Create(paths.deployment(LAB), Deployment()),
    Create(paths.deployment_roles(LAB)),
    Create(paths.deployment_role(LAB, "base"), DeploymentRole()),
    Create(paths.clusters(LAB)),
    Create(paths.gate(LAB, "base"), Gate()),
    Create(paths.node(N1), Node(deployment=LAB)),
    Create(paths.fence(N1), Fence()),
    Create(paths.noderoles(N1)),
    Create(paths.noderole("base", N1), RECORD),
    Create(paths.runs("base", N1)),
    Create(paths.user("base", N1), {"password": "of the database"}),
    Create(paths.rollouts(LAB), RolloutPointer()),
    Create(paths.rollout(LAB, "0000000001")),
]

#: What whoever has a builder's password may try: each would run something on machines, undo it, or stop annealers.
WRITES: dict[str, Change] = {
    "a role comes": Create(paths.role("evil"), ROOTS),
    "a role is another": Set(paths.role("base"), ROOTS, 0),
    "a role goes": Delete(paths.role("base"), 0),
    "a deployment comes": Create(paths.deployment("evil"), Deployment()),
    "a deployment is committed": Set(paths.deployment(LAB), Deployment(state=DeploymentState.COMMITTED), 0),
    "attributes of a deployment": Set(paths.deployment_role(LAB, "base"), DeploymentRole(user={"a": 1}), 0),
    "a deployment role goes": Delete(paths.deployment_role(LAB, "base"), 0),
    "a gate is raised": Raise(paths.gate(LAB, "base"), Gate()),
    "a node comes": Create(paths.node("n2.example.com"), Node()),
    "a node has another address": Set(paths.node(N1), Node(deployment=LAB, addresses=("192.0.2.66",)), 0),
    "a fence is raised": Set(paths.fence(N1), Fence(run="mine"), 0),
    "a fence goes": Delete(paths.fence(N1), 0),
    "a node is claimed": Create(
        paths.claim(N1), Claim(annealer="a", noderole="base@n1", run="r", epoch=1, since=1.0), ephemeral=True
    ),
    "a noderole comes": Create(paths.noderole("evil", N1), RECORD),
    "a noderole is committed": Set(paths.noderole("base", N1), replace(RECORD, generation=2), 0),
    "a noderole goes": Delete(paths.noderole("base", N1), 0),
    "attributes of people": Set(paths.user("base", N1), {"a": 1}, 0),
    "attributes of a jig": Create(paths.wall("base", N1), {"a": 1}),
    "a run": Create(paths.run("base", N1, "1"), RUN),
    "a rollout comes": Create(paths.rollout(LAB, "0000000002")),
    "a rollout is over": Set(paths.rollouts(LAB), RolloutPointer(over=True), 0),
    "a rollout is driven": Create(paths.rollout_lock(LAB, "0000000001")),
    "an annealer is there": Create(paths.daemon("annealer", "evil"), DAEMON, ephemeral=True),
    "the structure": Set(paths.STRUCTURE, Structure(), 0),
    "the cluster": Set(paths.CLUSTER, Cluster(id="mine"), 0),
    "the cluster goes": Delete(paths.CLUSTER, 0),
    "the time": Set(paths.CLOCK, None, 0),
    "anything": Create("/ocb/anything"),
}


class GuardedBuilderFleet(BuilderFleet):
    """A fleet whose session is people's, and whose builders come as builders."""

    def __init__(self, world: Guarded, chroot: str, folder: Path) -> None:
        self.world = world
        super().__init__(world.server, chroot, folder)

    def settings(self, session_seconds: float) -> ZooKeeperSettings:
        return replace(self.world.settings_of(ClientKind.PEOPLE, self.chroot), session_timeout_seconds=session_seconds)

    def settings_of_builders(self, session_seconds: float) -> ZooKeeperSettings:
        mine = self.world.settings_of(ClientKind.BUILDER)
        return replace(mine, hosts=self.chroot, session_timeout_seconds=session_seconds)


@pytest.fixture(scope="module")
def world() -> Iterator[Guarded]:
    with Guarded() as made:
        yield made


@pytest.fixture
def builders(world: Guarded, chroot: str, tmp_path: Path) -> Iterator[GuardedBuilderFleet]:
    with GuardedBuilderFleet(world, chroot, tmp_path) as made:
        yield made


def everything(session: Session) -> dict[str, tuple[int, bytes]]:
    """What is below ``/ocb``."""
    return {znode.path: (znode.version, znode.data) for znode in subtree(session, paths.ROOT)}


@pytest.mark.long
def test_a_build_and_an_upload_work_with_a_builders_user_over_tls(builders: GuardedBuilderFleet) -> None:
    before = everything(builders.session)
    builder = builders.builder(
        builders.image("jammy"), providers=[builders.provider("cloud", "jammy")], session_seconds=20.0
    )
    builder.start(120.0)
    (build,) = builders.until_ready("jammy", seconds=3 * PATIENCE_SECONDS)
    builders.until(lambda: builders.uploads("jammy", UploadState.READY), "it is uploaded", 3 * PATIENCE_SECONDS)
    assert len(builders.provided("cloud")) == 1
    builders.request("jammy")
    builders.until_ready("jammy", 2, seconds=3 * PATIENCE_SECONDS)
    assert builders.session.children(paths.daemons("builder")) == [builder.id]
    assert not list(acls.Walk(builders.session, Acls(builders.settings(1.0))).differing()), (
        "each znode has its place's rights"
    )
    builder.close(60.0)
    assert "does not let this user" not in builder.said, builder.said
    assert build.record.state is BuildState.READY
    assert everything(builders.session) == before, "nothing below /ocb was written"


def refusal(mine: Session, changes: list[Change]) -> str:
    """What is said of a transaction that must not be written."""
    with pytest.raises(Denied) as refused:
        mine.commit(changes)
    return str(refused.value)


def test_a_builders_user_writes_nothing_below_ocb(builders: GuardedBuilderFleet) -> None:
    assert len(WRITES) >= 20
    builders.session.ensure(paths.ROLLOUTS)
    builders.session.commit(THERE)
    before = everything(builders.session)
    with Session(builders.world.settings_of(ClientKind.BUILDER, builders.chroot)) as mine:
        mine.commit([Create("/nodepool/image/jammy")])
        for what, change in WRITES.items():
            for transaction in ([change], [Create("/nodepool/image/evil"), change]):
                assert change.path in refusal(mine, transaction), what
        assert mine.get("/nodepool/image/evil") is None, "nor what went with it"
    assert everything(builders.session) == before


@pytest.mark.parametrize("path", ["/ocb", "/ocb/roles", "/ocb/nodes", "/ocb/cluster", "/nodepool/image", "/"])
def test_a_builders_user_gives_itself_no_right(builders: GuardedBuilderFleet, path: str) -> None:
    with Session(builders.world.settings_of(ClientKind.BUILDER, builders.chroot)) as mine:
        place = builders.chroot + path if path != "/" else builders.chroot
        everybody = frames.access([frames.AclGrant(31, "world", "anyone")])
        (answer,) = mine.ask_many([(path, frames.write_acl(place, everybody, -1))], "change the rights of")
    assert isinstance(answer, Denied)
    assert f"change the rights of {path};" in str(answer)
    assert not list(acls.Walk(builders.session, Acls(builders.settings(1.0))).differing())


def test_a_builders_user_reads_no_attributes(builders: GuardedBuilderFleet) -> None:
    builders.session.ensure(paths.ROLLOUTS)
    builders.session.commit(THERE)
    with Session(builders.world.settings_of(ClientKind.BUILDER, builders.chroot)) as mine:
        for path in (paths.user("base", N1), paths.node(N1), paths.role("base"), paths.deployment_role(LAB, "base")):
            with pytest.raises(Denied, match=f"read {path}"):
                mine.get(path)
        assert mine.get(paths.CLUSTER) is not None


def test_a_builder_that_comes_as_another_ends_with_the_sentence(builders: GuardedBuilderFleet) -> None:
    builder = builders.builder(builders.image("jammy"))
    text = builder.config.read_text()
    assert "username: ocb-builder" in text
    builder.config.write_text(text.replace("username: ocb-builder", "username: ocb-annealer"))
    builder.begin()
    assert builder.wait(120.0) == 1
    assert "ocb-annealer is not the user of this builder, which is ocb-builder" in builder.said
    assert "Traceback" not in builder.said

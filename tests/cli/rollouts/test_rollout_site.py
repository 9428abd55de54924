"""A site of 200 machines with 10 roles each, all ACTIVE, that is updated by rollouts; jig test acts in place of machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import (
    Attrib,
    Change,
    Create,
    Deployment,
    DeploymentState,
    Fence,
    Given,
    Json,
    Node,
    NodeRole,
    Role,
    Set,
    State,
)
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.client.transaction import RECORD_BYTES
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.processes import DaemonProcess
from tests.fixtures.commands import Ocb

MACHINES, ROLES, FIRST = 200, 10, 5  # role r5 has the attribute; r6 to r9 are below it and see it, too
SEEING = tuple(f"r{number}" for number in range(FIRST, ROLES))
NODES = tuple(f"n{number:03}.example.com" for number in range(MACHINES))
CANARY = NODES[0]


def build(session: Session) -> None:
    """Every node has the chain r0 <- r1 <- ... <- r9, PROPOSED in deployment site."""
    made: list[Change] = [
        Create(paths.deployment("site"), Deployment(state=DeploymentState.COMMITTED)),
        Create(paths.deployment_roles("site")),
    ]
    for number in range(ROLES):
        above = (f"r{number - 1}",) if number else ()
        attribs = (Attrib(name="text", map="text"),) if number == FIRST else ()
        made.append(Create(paths.role(f"r{number}"), Role(barclamp="b", jig="test", requires=above, attribs=attribs)))
    for fqdn in NODES:
        made += [
            Create(paths.node(fqdn), Node(deployment="site", alive=True)),
            Create(paths.fence(fqdn), Fence()),
            Create(paths.noderoles(fqdn)),
        ]
        for number in range(ROLES):
            above = (f"r{number - 1}@{fqdn}",) if number else ()
            record = NodeRole(state=State.PROPOSED, since=1.0, deployment="site", parents=above)
            role = f"r{number}"
            made += [Create(paths.noderole(role, fqdn), record), Create(paths.runs(role, fqdn))]
    for start in range(0, len(made), 400):
        session.commit(made[start : start + 400])


def generations(session: Session) -> dict[str, int]:
    return {vertex.name: vertex.record.generation for vertex in load_world(session).vertices()}


def values(session: Session) -> Counter[Json]:
    """What the newest runs of the roles that see the attribute were given, and so what machines have."""
    found = session.get_many([paths.given(role, fqdn) for fqdn in NODES for role in SEEING])
    return Counter(codec.decode(Given, each).attributes.get("text") if each is not None else None for each in found)


@pytest.mark.long
def test_a_site_of_200_machines_is_updated_in_batches_and_a_failing_canary_leaves_the_rest_as_it_is(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path, ocb: Ocb, ask: Callable[..., Json]
) -> None:
    build(zk_session)
    settings = {"annealer": {"probe_seconds": 600.0, "slots": 40}}
    with DaemonProcess(zk_settings, tmp_path / "annealer", settings):
        assert ocb("rollout", "start", "--default", "--wait", "--timeout", "400").exit_code == 0
        before = generations(zk_session)
        ask("deployment", "propose", "site")
        ask("deployment", "set", "site", f"r{FIRST}", 'text="new"')
        ask("deployment", "commit", "site", "--no-noderoles")
        zk_session.commit([Create(paths.user(f"r{FIRST}", CANARY), {"fail": "no disk"})])
        start = ("rollout", "start", "--changed", "--batch", "1", "--batch", "10%", "--batch", "100%")
        many = len(SEEING) * MACHINES
        assert f"to run again: {many} noderoles on {MACHINES} nodes\n" in ocb(*start, "--dry-run").stderr
        failed = ocb(*start, "--wait", "--timeout", "400")
        assert (failed.exit_code, f"not started ({MACHINES - 1}):" in failed.stdout) == (6, True), failed.output
        moved = {name for name, generation in generations(zk_session).items() if generation != before[name]}
        assert {name.partition("@")[2] for name in moved} == {CANARY}
        assert values(zk_session)[None] == many, "no machine has the new value"
        left = many - len(SEEING)
        assert f"to run again: {left} noderoles on {MACHINES - 1} nodes\n" in ocb(*start, "--dry-run").stderr
        zk_session.commit([Set(paths.user(f"r{FIRST}", CANARY), {}, 0)])
        ask("rollout", "retry")
        ended = ocb("rollout", "wait", "--timeout", "400")
        assert ended.exit_code == 0, ended.output
        assert values(zk_session) == {"new": many}
        once = {
            name: generations(zk_session)[name] - generation
            for name, generation in before.items()
            if CANARY not in name
        }
        assert {name.partition("@")[0] for name, more in once.items() if more} == set(SEEING)
        assert set(once.values()) == {0, 1}, "what sees the attribute ran once, and nothing else ran"
        assert ocb(*start).exit_code == 4
    parts = zk_session.children(f"{paths.rollout('site', '0000000001')}/nodes") or []
    znodes = zk_session.get_many([paths.rollout("site", "0000000001", f"nodes/{part}") for part in parts])
    assert max(len(each.data) for each in znodes if each is not None) < RECORD_BYTES

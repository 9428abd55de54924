"""``node rename``: everything of a node goes along, in one transaction, or nothing does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from nodepool_ocb.model import limits, paths
from nodepool_ocb.model.records import Claim, Create, NodeRole, Role, RolloutPointer, Run, Set, State
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.subtree import removal
from nodepool_ocb.store.world.load import load_world

Ask = Callable[..., Any]
Ocb = Callable[..., Result]
N1, N2, NEW = "n1.example.com", "n2.example.com", "db1.example.com"
RUN = Run(annealer="a", started=1.0, ended=2.0, outcome="succeeded", generation=3, epoch=1, tail="done")


def rename(ocb: Ocb, exit_code: int, said: str, new: str = NEW) -> None:
    answer = ocb("node", "rename", N1, new)
    assert (answer.exit_code, said in answer.stderr) == (exit_code, True), answer.output


def test_everything_of_a_node_goes_along_and_whoever_names_it_follows(world: Session, ask: Ask, ocb: Ocb) -> None:
    ask("noderole", "set", f"top@{N1}", 'a/text="0755"')
    ask("node", "create", N2, "--deployment", "lab")
    world.commit([Create(paths.role("leaf"), Role(barclamp="b", jig="noop", requires=("top",)))])
    ask("node", "bind", N2, "leaf", "--parent", f"top@{N1}")
    vertex = load_world(world).nodes[N1].noderoles["base"]
    active = NodeRole(state=State.ACTIVE, since=1.0, deployment="lab", generation=3, run="0000000001", epoch=1)
    world.commit(
        [
            Set(paths.noderole("base", N1), active, vertex.version),
            Create(paths.run("base", N1, "0000000001"), RUN),
            Create(paths.wall("base", N1), {"seen": [1, "x"]}),
        ]
    )
    before = load_world(world)
    assert ocb("node", "rename", N1, NEW, "--dry-run").exit_code == 10
    ask("node", "rename", N1, NEW)
    after = load_world(world)
    assert N1 not in after.nodes
    assert world.get(paths.node(N1)) is None
    new, old = after.nodes[NEW], before.nodes[N1]
    assert new.record is not None
    assert old.record is not None
    assert new.record == replace(old.record, addresses=(NEW,), epoch_base=new.record.epoch_base)
    assert new.epoch > old.epoch
    assert new.noderoles["base"].record == active
    assert new.noderoles["top"].record == replace(old.noderoles["top"].record, parents=(f"middle@{NEW}",))
    leaf = after.nodes[N2].noderoles["leaf"]
    assert leaf.record == replace(before.nodes[N2].noderoles["leaf"].record, parents=(f"top@{NEW}",))
    assert [run["tail"] for run in ask("noderole", "show", f"base@{NEW}")["runs"]] == ["done"]
    shown = ask("noderole", "show", f"top@{NEW}")["attributes"]
    assert shown["user"] == {"a": {"text": "0755"}}
    assert ask("noderole", "show", f"base@{NEW}")["attributes"]["wall"] == {"seen": [1, "x"]}
    assert ocb("node", "commit", NEW).exit_code == 0


@pytest.mark.parametrize(
    ("new", "exit_code", "said"),
    [
        ("db1", 1, "fully qualified"),
        ("db1.elsewhere.org", 1, "admin domain"),
        (N2, 4, "exists already"),
        ("n3.example.com", 4, "is at n3.example.com port 22 already"),
    ],
)
@pytest.mark.usefixtures("world")
def test_a_name_that_is_none_or_is_taken_is_refused(
    ask: Ask, ocb: Ocb, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, new: str, exit_code: int, said: str
) -> None:
    (tmp_path / "nodepool-ocb.yaml").write_text("admin_domain: example.com\n")
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(tmp_path))
    ask("node", "create", N2, "--address", "n3.example.com")
    rename(ocb, exit_code, said, new)


def test_a_node_at_work_or_in_a_rollout_keeps_its_name(world: Session, ocb: Ocb, ask: Ask) -> None:
    claim = Claim(annealer="a", noderole=f"base@{N1}", run="1", epoch=1, since=0.0)
    world.commit([Create(paths.claim(N1), claim, ephemeral=True)])
    rename(ocb, 4, "at work")
    world.commit(removal(world, paths.claim(N1)))
    world.commit([Create(paths.rollouts("system"), RolloutPointer(newest="0000000001", over=False))])
    rename(ocb, 4, "rollout system/0000000001 is under way")
    stat = world.get(paths.rollouts("system"))
    assert stat is not None
    world.commit([Set(paths.rollouts("system"), RolloutPointer(newest="0000000001"), stat.version)])
    ask("node", "rename", N1, NEW)


def test_a_node_with_a_record_that_cannot_be_read_keeps_its_name(world: Session, ocb: Ocb) -> None:
    path = paths.noderole("top", N1)
    world._client.set(path, b"{oops")
    refused = ocb("node", "rename", N1, "n9.example.com")
    assert (refused.exit_code, f"see: nodepool-ocb record show {path}" in refused.stderr) == (4, True), refused.output
    assert world.get(paths.node(N1)) is not None


def test_a_node_of_more_than_one_transaction_bears_keeps_its_name(world: Session, ocb: Ocb) -> None:
    names = [f"{number:010}" for number in range(limits.TRANSACTION_CHANGES // 2)]
    for start in range(0, len(names), 100):
        world.commit([Create(paths.run("base", N1, name), RUN) for name in names[start : start + 100]])
    rename(ocb, 4, "more noderoles, attributes and runs than the one transaction of a rename may change")
    assert N1 in load_world(world).nodes


def test_what_keeps_machines_by_their_names_is_told_of_another(world: Session, ask: Ask) -> None:
    dns = Role(barclamp="b", jig="noop", hooks=("on_node_change",))
    world.commit([Create(paths.role("dns"), dns)])
    ask("node", "rename", N1, NEW)
    node = load_world(world).nodes[NEW].record
    assert node is not None
    assert (node.hooks, node.changed) == (("on_node_change",), {"name": ""})

"""Hooks of nodes: every role that has one is called, and what they want comes in one round, at one annealer."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue.code import Hooked, Role
from nodepool_ocb.engine import holdings
from nodepool_ocb.model import paths
from nodepool_ocb.model.networks import NetworkAddress
from nodepool_ocb.model.records import Node, State
from nodepool_ocb.store.client import codec
from nodepool_ocb_annealer.hooks import nodes
from nodepool_ocb_annealer.timer_kinds import Timer, TimerKind
from tests.annealer.hooks.hook_desk import LAB, Desk

CHANGE = "on_node_change"
TIMER = Timer(TimerKind.NODE_HOOK, "n1")


def record(desk: Desk) -> Node:
    found = desk.world.nodes["n1"].record
    assert found is not None
    return found


def two_roles(desk: Desk, hook: str) -> list[Hooked]:
    """Roles dns and dhcp, of which dns requires dhcp; what their hooks saw."""
    seen: list[Hooked] = []
    for name, requires in (("dns", ("dhcp",)), ("dhcp", ())):
        desk.catalogue(hook, name=name, requires=requires)
        desk.brings(name, **{hook: lambda _, hooked: seen.append(hooked)})
    return seen


def test_the_hooks_of_all_roles_see_the_node_and_the_noderoles_of_their_role(desk: Desk) -> None:
    seen = two_roles(desk, "on_node_create")
    desk.node(hooks=("on_node_create", CHANGE))
    desk.noderole(role="dns", state=State.ACTIVE)
    desk.run()
    assert [(each.subject, each.role) for each in seen] == [("n1", "dhcp"), ("n1", "dns")]
    assert [each.node.hooks for each in seen if each.node is not None] == [("on_node_create", CHANGE)] * 2
    assert [list(each.noderoles) for each in seen] == [[], ["dns@n1"]]
    assert [each.changed for each in seen] == [frozenset(), frozenset()]
    assert record(desk).hooks == (CHANGE,)
    assert desk.sent == [str(TIMER)]
    assert desk.take() == [TIMER]


def test_only_roles_that_hear_of_a_change_are_called(desk: Desk) -> None:
    seen = two_roles(desk, CHANGE)
    desk.node(hooks=(CHANGE,), changed={"rack": "dns", "bootenv": "dns"})
    desk.run()
    assert [(each.role, each.changed) for each in seen] == [("dhcp", frozenset({"rack", "bootenv"}))]
    assert (record(desk).hooks, record(desk).changed) == ((), {})
    desk.write(paths.node("n1"), replace(record(desk), hooks=(CHANGE,), changed={"rack": "dns", "alive": ""}))
    desk.run()
    assert [(each.role, each.changed) for each in seen[1:]] == [
        ("dhcp", frozenset({"rack", "alive"})),
        ("dns", frozenset({"alive"})),
    ]
    desk.write(paths.node("n1"), replace(record(desk), hooks=(CHANGE,)))
    desk.run()
    assert [each.role for each in seen[3:]] == ["dhcp", "dns"]


def test_hooks_of_which_one_has_no_code_here_are_left_to_another_annealer(desk: Desk) -> None:
    seen = two_roles(desk, CHANGE)
    del desk.code["dns"]
    desk.node(hooks=(CHANGE,))
    desk.run()
    assert (seen, desk.sent, record(desk).hooks) == ([], [], (CHANGE,))


def test_a_role_that_wants_the_impossible_is_left_out_and_named(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    two_roles(desk, "on_node_create")
    desk.brings("dns", on_node_create=lambda _, hooked: hooked.set_node.update(deployment="nowhere"))
    desk.brings("dhcp", on_node_create=lambda _, hooked: hooked.set_node.update(rack="r1"))
    desk.node(hooks=("on_node_create",))
    with caplog.at_level(logging.ERROR, nodes.log.name):
        desk.run()
    assert (record(desk).rack, record(desk).deployment, record(desk).hooks) == ("r1", LAB, ())
    (said,) = [each.getMessage() for each in caplog.records if each.name == nodes.log.name]
    assert said.startswith("on_node_create of role dns for n1: ")
    assert "nowhere" in said


def test_a_hook_that_raises_keeps_no_other_from_what_it_wants(desk: Desk) -> None:
    two_roles(desk, "on_node_create")

    def fails(_: Role, hooked: Hooked) -> None:
        hooked.set_node["rack"] = "r9"
        raise ValueError("no licence")

    desk.brings("dns", on_node_create=fails)
    desk.brings("dhcp", on_node_create=lambda _, hooked: hooked.set_system.update({"dns@n1": {"a": 1}}))
    desk.node(hooks=("on_node_create",))
    desk.noderole(role="dns", state=State.ACTIVE)
    desk.run()
    assert (record(desk).rack, record(desk).hooks) == (None, ())
    assert codec.attributes(desk.session.get(paths.system("dns", "n1"))) == {"a": 1}


def test_a_node_that_was_written_meanwhile_is_asked_about_again(desk: Desk) -> None:
    two_roles(desk, CHANGE)
    desk.node(hooks=(CHANGE,))
    desk.hooking.look_at_all()
    for timer in desk.take():
        desk.hooking.due(timer.kind, timer.about)
    desk.write(paths.node("n1"), replace(record(desk), rack="r1"))
    desk.turn()
    assert (record(desk).rack, record(desk).hooks) == ("r1", (CHANGE,))
    assert 1.5 < desk.waits()[TIMER] <= 2.0


def test_hooks_that_answer_each_other_without_end_wait_longer_and_longer(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    two_roles(desk, CHANGE)

    def counts(_: Role, hooked: Hooked) -> None:
        assert hooked.node is not None
        hooked.set_node["rack"] = f"{int(hooked.node.rack or 0) + 1}"

    desk.brings("dns", on_node_change=counts)
    desk.brings("dhcp", on_node_change=counts)
    desk.node(hooks=(CHANGE,), changed={"alive": ""})
    rounds = 0
    with caplog.at_level(logging.WARNING, nodes.log.name):
        while rounds < nodes.ROUNDS + 2:
            before = len(desk.sent)
            desk.run()
            if len(desk.sent) == before:
                break
            rounds += 1
            desk.take()
    assert rounds == nodes.ROUNDS + 1
    assert CHANGE in record(desk).hooks
    said = [each.getMessage() for each in caplog.records if nodes.ENDLESS in each.getMessage()]
    assert [text.partition(";")[0] for text in said] == [f"n1: {nodes.ENDLESS} (rack)"]
    desk.take()
    desk.hooking.due(TIMER.kind, TIMER.about)
    assert len(desk.hooking._under_way) == 0
    assert 0.0 < desk.waits()[TIMER] <= 4.0


# -- deletion --


def going(desk: Desk, **fields: Any) -> None:
    desk.node(deleting=True, **fields)
    desk.noderole(role="dns", state=State.PROPOSED)
    desk.write(paths.system("dns", "n1"), {"a": 1})


def test_a_node_goes_with_all_below_it_when_its_hooks_have_run(desk: Desk) -> None:
    seen = two_roles(desk, "on_node_delete")
    going(desk, hooks=("on_node_delete",))
    desk.run()
    assert [each.role for each in seen] == ["dhcp", "dns"]
    assert desk.session.get(paths.node("n1")) is not None
    for _ in range(5):
        desk.run()
    assert desk.session.get(paths.node("n1")) is None
    assert "n1" not in desk.world.nodes


def test_its_macs_are_free_and_its_addresses_in_quarantine_then(desk: Desk) -> None:
    mac, address = "52:54:00:12:34:56", paths.network_address("admin", "10.1.0.20")
    held = Node(macs=(mac,), networks={"admin": ("10.1.0.20",)})
    desk.session.ensure(paths.MACS, paths.network_addresses("admin"))
    desk.session.commit(list(holdings.created("n1", held, 1.0)))
    desk.catalogue(name="dns")
    going(desk, macs=held.macs, networks=held.networks)
    for _ in range(5):
        desk.run()
    assert [desk.session.get(path) for path in (paths.node("n1"), paths.mac(mac))] == [None, None]
    left = desk.session.get(address)
    assert left is not None
    assert codec.decode(NetworkAddress, left) == NetworkAddress(former="n1")


def test_a_node_for_which_another_waits_is_not_deleted_yet(desk: Desk) -> None:
    desk.catalogue(name="dns")
    going(desk)
    desk.node("n2")
    desk.noderole("n2", role="dns", state=State.BLOCKED, parents=("dns@n1",))
    desk.run()
    assert desk.session.get(paths.node("n1")) is not None
    assert desk.sent == []

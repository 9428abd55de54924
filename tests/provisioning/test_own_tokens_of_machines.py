"""The tokens that a machine gets of itself, where leaders of ZooKeeper have different clocks or a former user has a copy."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.engine import installing
from nodepool_ocb.engine.advancing import advance
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.errors import Denied
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.installation import Installation, InstallStep, MachineUse
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Create, Delete, InstallRequest, Node, Role, State
from nodepool_ocb.model.tokens import Token, TokenRole
from nodepool_ocb.operations.installations.identity import InstallationIdentity
from nodepool_ocb.operations.joining.registering import RegistrationPoll
from nodepool_ocb.operations.limits.narrowing import Limits, names_within
from nodepool_ocb.operations.operation import Call
from nodepool_ocb.operations.reads.networks import ReadMacOwners, ReadRegistration
from nodepool_ocb.operations.reads.tokens import DrawSecret, EnsureTokens, FoundTokens, FreshSecret, ReadTokens
from nodepool_ocb.operations.reads.world import ReadWorld
from nodepool_ocb.pool.metal import taking
from nodepool_ocb.pool.metal.plans import MetalOffer, MetalStamp
from tests.engine.worlds import put, world
from tests.operations.test_decisions import NOW, Decided, decided, situation

N: Final = "n1.example.com"
MAC: Final = "52:54:00:00:00:01"
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEx4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
BEGINS: Final = NOW + 50.0  # of the use, by a leader whose clock is ahead of the present one's
SECRET: Final = "0a" * 32
OLD: Final = "00000000000a"  # the id of an older own token of the machine


def lent() -> World:
    """A machine that a pool has, whose installation is under way."""
    made = world()
    vertex = put(made, f"os@{N}", State.TRANSITION)
    made.put_node(N, Node(macs=(MAC,), allow_install=True), 5)
    used = MachineUse(
        cluster="c", provider="r", pool="m", pool_node="1", key="k", label="l", image="i", since=BEGINS, generation=1
    )
    made.put(Stored(used, 0), N)
    begun = Installation(
        noderole=vertex.name, generation=1, run="r", epoch=1, since=0.0, started=0.0, deadline=900.0, nonce="0" * 32,
        token="00000000000b", token_digest="0" * 64, step=InstallStep.REBOOTING,
    )  # fmt: skip
    made.put(Stored(begun, 0), N)
    return made


def answers(made: World, registered: float = BEGINS) -> dict[type, Any]:
    old = Token(
        name=tokens.of_machine(N), role=TokenRole.NODE, digest="0" * 64, selector=f"name:{N}", life=0, created=BEGINS
    )
    registration = MachineRegistration(
        macs=(MAC,), digest=tokens.digest(SECRET), node=N, by="site", since=registered, seen=registered
    )
    return {
        ReadWorld: made,
        ReadTokens: FoundTokens({OLD: Stored(old, 0), "00000000000c": Stored(replace(old, name="ann"), 0)}, {}),
        DrawSecret: FreshSecret("00000000000d", bytes(32)),
        EnsureTokens: None,
        ReadRegistration: Stored(registration, 0),
        ReadMacOwners: {MAC: N},
    }


def identified(made: World) -> Decided:
    operation = InstallationIdentity(node=N, mac=MAC, boot_id="b", host_key=KEY)
    call = Call(login=installing.caller(made.of(Installation)[N].record), host="h")
    return Decided(operation.decide(replace(situation(), call=call)), answers(made))


def polled(made: World, registered: float = BEGINS) -> Decided:
    return decided(RegistrationPoll(mac=MAC, secret=SECRET), answers(made, registered))


@pytest.mark.parametrize("get", [identified, polled])
def test_a_token_counts_under_a_leader_whose_clock_is_behind_that_of_the_use_and_the_older_ones_go(get: Any) -> None:
    made = lent()
    written = get(made).written
    (token,) = [each.data for each in written if isinstance(each, Create)]
    assert token.created == BEGINS
    limits = Limits((), f"name:{N}", life=0, made=token.created)
    assert N in names_within(made, limits)
    gone = [each.path for each in written if isinstance(each, Delete) and each.path.startswith(paths.TOKENS)]
    assert gone == [paths.token(OLD)], "by its time it would count, too"


def test_a_token_ends_with_its_use_and_stays_ended_under_a_leader_whose_clock_is_behind() -> None:
    made = lent()
    put(made, f"os@{N}", State.ACTIVE)
    made.put(Stored(MachinePower(driver="ipmi"), 0), N)
    made.put(Stored(Role(barclamp="b", jig="install"), 1), "os")
    limits = Limits((), f"name:{N}", life=0, made=BEGINS)
    assert N in names_within(made, limits)
    stamp = MetalStamp(cluster="c", provider="r", pool="m", node="1", key="k")
    advance(made, taking.give_back(made, N, stamp, NOW, "0" * 16).changes)
    assert names_within(made, limits) == set(), "the use has ended"
    made.put(Stored(MachinePower(driver="ipmi"), 1), N)
    offer = MetalOffer(label="l", selectors=(f"name:{N}",), request=InstallRequest(image="i"))
    plan = taking.take(made, offer, replace(stamp, node="2"), NOW)
    assert plan.changes, plan.answer
    advance(made, plan.changes)
    assert names_within(made, limits) == set(), "the next use makes it no younger"


def test_a_registration_from_before_the_use_gives_its_former_user_no_token() -> None:
    made = lent()
    put(made, f"os@{N}", State.ACTIVE)
    with pytest.raises(Denied, match=f"registration delete {MAC}, then register the machine again"):
        polled(made, BEGINS - 1.0)


def test_a_machine_that_waits_for_its_installation_is_told_so_and_gets_no_token() -> None:
    with pytest.raises(Denied, match="is being installed; the machine gets its token when it boots for that"):
        polled(lent(), BEGINS - 1.0)

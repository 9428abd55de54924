"""Driver static, with real sshd: liveness, host keys, kept connections, and the runner's state between two users."""

from __future__ import annotations

import getpass
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import Settings, SshSettings
from nodepool_ocb.jigs.jig import Order, Succeeded
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.jigs.ssh import leasekeys
from nodepool_ocb.jigs.ssh.link import Link
from nodepool_ocb.model.records import Role
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool, StaticMachine
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.keyscan import host_keys
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineRefused
from nodepool_ocb.testing.machines import Farm
from tests.providers.machines.orders import SSH, made, new_order, opened, refused, static_provider

LABEL = PoolLabel(name="small")


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    with Farm(1, tmp_path / "farm") as farm:
        yield farm


def machine(farm: Farm, **fields: Any) -> StaticMachine:
    host, port = farm.address(0)
    given = StaticMachine(name=host, port=port, labels=("small",), username=getpass.getuser(), timeout_seconds=5.0)
    return replace(given, **fields)


def host_key(farm: Farm) -> str:
    return farm.records()[0][1].host_keys[0]


def lend(provider: MachineCalls, given: StaticMachine, **fields: Any) -> Machine | MachineRefused:
    pool = ProviderPool(name="main", provider="p", labels={"small": LABEL}, machines=(given,))
    return provider.create(new_order(LABEL, pool=pool, machine=given.name, slot=0, **fields))


def with_keys(farm: Farm) -> SshSettings:
    return SshSettings(**{**farm.settings(), "key_files": tuple(farm.settings()["key_files"])})


def add_host_key(farm: Farm, kind: str) -> str:
    """The machine has a further host key from now on."""
    folder = farm.directory / "m0"
    file = folder / f"host_key_{kind}"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", str(file)], check=True)
    config = folder / "sshd_config"
    config.write_text(f"HostKey {file}\n{config.read_text()}")
    farm.kill(0)
    farm.start(0)
    return " ".join(file.with_suffix(".pub").read_text().split()[:2])


# -- the scan of host keys --


def test_the_host_keys_of_each_kind_are_gathered(farm: Farm) -> None:
    expected = {host_key(farm), add_host_key(farm, "rsa"), add_host_key(farm, "ecdsa")}
    found = host_keys(*farm.address(0), 10.0)
    assert isinstance(found, tuple)
    assert set(found) == expected
    assert len(found) == 3


def test_the_scan_of_a_machine_without_sshd_is_refused_at_once(farm: Farm) -> None:
    farm.kill(0)
    begun = time.monotonic()
    assert "connect: " in refused(host_keys(*farm.address(0), 10.0), LaunchParty.MACHINE)
    assert time.monotonic() - begun < 5.0


def test_the_scan_of_a_silent_machine_ends_at_its_deadline(farm: Farm) -> None:
    farm.freeze(0)
    begun = time.monotonic()
    refused(host_keys(*farm.address(0), 0.5), LaunchParty.MACHINE)
    assert time.monotonic() - begun < 5.0
    farm.thaw(0)


def test_a_name_that_does_not_exist_is_a_fault_of_the_machine() -> None:
    assert "resolve: " in refused(host_keys("nowhere.invalid", 22, 5.0))


# -- creation --


def test_a_slot_is_lent_with_address_port_and_host_keys(farm: Farm) -> None:
    given = machine(farm, slots=2)
    provider = opened(static_provider(given))
    pool = ProviderPool(name="main", provider="p", labels={"small": LABEL}, machines=(given,))
    order = new_order(LABEL, pool=pool, machine=given.name, slot=1)
    lent = made(provider.create(order))
    assert lent.external_id == f"{given.username}@{given.name}:{given.port}#1"
    assert (lent.address, lent.port, lent.public_ipv4, lent.state) == (given.name, given.port, given.name, "running")
    assert (lent.host_keys, lent.stamp) == ((host_key(farm),), order.stamp)
    seen = made(provider.look(lent.external_id))
    assert (seen.address, seen.host_keys) == (given.name, None)
    assert provider.look(lent.external_id.replace("#1", "#2")) is None
    assert provider.find(order.stamp) is None
    assert provider.list() == ()
    assert provider.delete(lent.external_id, order.stamp) is None


def test_a_pinned_host_key_must_be_shown(farm: Farm) -> None:
    add_host_key(farm, "rsa")
    given = machine(farm, host_keys=(f"{host_key(farm)} root@m0",))
    assert made(lend(opened(static_provider(given)), given)).host_keys == (host_key(farm),)
    other = machine(
        farm, host_keys=("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJLk3VnDyzMq4bdKbFk1QbG8gF6mA2Xg9QZ4o0s5Vw9m",)
    )
    assert "that the file pins" in refused(lend(opened(static_provider(other)), other), LaunchParty.MACHINE)


def test_without_host_key_checking_the_machine_is_not_asked(farm: Farm) -> None:
    given = machine(farm, host_key_checking=False, host_keys=("ssh-rsa AAAA",))
    farm.kill(0)
    provider = opened(static_provider(given))
    lent = made(lend(provider, given))
    assert lent.host_keys == made(provider.look(lent.external_id)).host_keys == ("ssh-rsa AAAA",)
    assert provider.check(lent.external_id, ("ssh-rsa AAAA",)) is None


def test_a_machine_without_ssh_is_asked_for_a_connection_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = StaticMachine(
            name="127.0.0.1",
            port=server.getsockname()[1],
            labels=("small",),
            connection_type="winrm",
            timeout_seconds=2.0,
        )
        provider = opened(static_provider(given))
        lent = made(lend(provider, given))
        assert lent.host_keys == ()
        assert provider.check(lent.external_id, ()) is None
    refused(provider.check(lent.external_id, ()), LaunchParty.MACHINE)
    refused(lend(provider, given), LaunchParty.MACHINE)


def test_a_machine_or_slot_that_is_not_in_the_file_is_refused(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given))
    pool = ProviderPool(name="main", provider="p", machines=(given,))
    for fields in ({"machine": "other", "slot": 0}, {"machine": given.name, "slot": 1}):
        refused(provider.create(new_order(LABEL, pool=pool, **fields)), LaunchParty.REQUEST)
    refused(provider.create(new_order(PoolLabel(name="x"), pool=pool, machine=given.name)), LaunchParty.REQUEST)


def test_of_two_machines_of_one_name_the_order_names_one_by_user_and_port(farm: Farm) -> None:
    first, second = machine(farm), machine(farm, username="other")
    provider = opened(static_provider(first, second))
    pool = ProviderPool(name="main", provider="p", machines=(first, second))
    order = new_order(LABEL, pool=pool, machine=f"other@{second.name}:{second.port}")
    assert made(provider.create(order)).external_id.startswith("other@")


# -- liveness --


def test_a_check_goes_over_a_kept_connection(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    lent = made(lend(provider, given))
    keys = lent.host_keys or ()
    assert provider.check(lent.external_id, keys) is None
    processes = farm.processes(0)
    for _ in range(20):
        assert provider.check(lent.external_id, keys) is None
    assert set(farm.processes(0)) <= set(processes)
    provider.close()


def test_a_kept_connection_that_ended_is_made_anew(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    lent = made(lend(provider, given))
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    farm.cut(0)
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    provider.close()


@pytest.mark.parametrize("keys", [True, False], ids=["logged in", "without a key"])
def test_a_machine_that_is_off_is_not_handed_out(keys: bool, farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm) if keys else SSH)
    lent = made(lend(provider, given))
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    farm.kill(0)
    refused(provider.check(lent.external_id, lent.host_keys or ()), LaunchParty.MACHINE)
    farm.start(0)
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    provider.close()


@pytest.mark.parametrize("keys", [True, False], ids=["logged in", "without a key"])
def test_a_frozen_machine_is_not_handed_out(keys: bool, farm: Farm) -> None:
    given = machine(farm, timeout_seconds=0.7)
    provider = opened(static_provider(given), with_keys(farm) if keys else SSH)
    lent = made(lend(provider, given))
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    farm.freeze(0)
    refused(provider.check(lent.external_id, lent.host_keys or ()), LaunchParty.MACHINE)
    farm.thaw(0)
    provider.close()


def test_another_machine_in_its_place_is_not_handed_out(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    lent = made(lend(provider, given))
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    farm.unplug(0)
    farm.start_another(0)
    assert "host key" in refused(provider.check(lent.external_id, lent.host_keys or ()), LaunchParty.MACHINE)
    assert made(lend(provider, given)).host_keys != lent.host_keys  # the next life of the slot has the new key
    provider.close()
    farm.unplug(0)


def test_another_machine_in_its_place_is_not_handed_out_although_this_host_cannot_log_in(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), SshSettings())
    lent = made(lend(provider, given))
    assert provider.check(lent.external_id, lent.host_keys or ()) is None
    farm.unplug(0)
    farm.start_another(0)
    assert "shows the host key" in refused(provider.check(lent.external_id, lent.host_keys or ()), LaunchParty.MACHINE)
    provider.close()
    farm.unplug(0)


def test_a_login_that_is_refused_is_not_tried_again_soon(farm: Farm, tmp_path: Path) -> None:
    """sshd counts refused logins; the machine is asked without one."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "stranger")], check=True)
    given = machine(farm)
    config = farm.directory / "m0" / "sshd_config"
    config.write_text(config.read_text().replace("LogLevel ERROR", "LogLevel VERBOSE"))
    farm.kill(0)
    farm.start(0)
    provider = opened(static_provider(given), SshSettings(key_files=(str(tmp_path / "stranger"),)))
    lent = made(lend(provider, given))
    for _ in range(3):
        assert provider.check(lent.external_id, lent.host_keys or ()) is None
    assert (farm.directory / "m0" / "sshd.log").read_text().count("Failed publickey") == 1
    provider.close()


# -- between two users --


def order_of(farm: Farm, script: str, generation: int = 1) -> Order:
    ((fqdn, node),) = farm.records()
    return Order(
        node=fqdn,
        record=node,
        role="r",
        definition=Role(barclamp="b", jig="script", script=script),
        generation=generation,
        epoch=generation,
        run=f"run-{generation}",
        timeout_seconds=60.0,
    )


def test_the_files_of_the_last_user_go_and_the_epochs_stay(farm: Farm) -> None:
    given, settings = machine(farm), with_keys(farm)
    state = farm.state_dir("m0.farm.example.com")
    jig = ScriptJig(Settings(ssh=settings))
    assert isinstance(jig.run(order_of(farm, "echo secret-of-the-last-user"), threading.Event()), Succeeded)
    assert any("secret-of-the-last-user" in file.read_text() for file in state.glob("runs/*.script"))
    epochs = [file.read_text() for file in sorted(state.glob("epoch.*"))]
    provider = opened(static_provider(given), settings)
    made(lend(provider, given, annealed=True))
    assert not [file for file in state.rglob("*") if file.is_file() and b"secret-of-the" in file.read_bytes()]
    assert epochs == [file.read_text() for file in sorted(state.glob("epoch.*"))] != []
    assert isinstance(jig.run(order_of(farm, "true", generation=2), threading.Event()), Succeeded)


def test_a_run_of_the_last_user_that_goes_on_is_ended(farm: Farm, until: Callable[..., None]) -> None:
    given, settings = machine(farm), with_keys(farm)
    jig, stop = ScriptJig(Settings(ssh=settings)), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(jig.run, order_of(farm, "trap '' TERM\nwhile :; do sleep 0.1; done"), stop)
        until(lambda: farm.at_work(0))
        made(lend(opened(static_provider(given), settings), given, annealed=True))
        assert not farm.at_work(0)
        stop.set()
        assert not isinstance(running.result(30.0), Succeeded)


def test_a_machine_on_which_annealers_act_has_one_slot(farm: Farm) -> None:
    given = machine(farm, slots=2)
    provider = opened(static_provider(given), with_keys(farm))
    assert "one slot alone" in refused(lend(provider, given, annealed=True), LaunchParty.REQUEST)


def test_without_a_key_the_runs_cannot_be_removed_which_is_a_fault_of_this_host(farm: Farm) -> None:
    given = machine(farm)
    assert "key_files" in refused(lend(opened(static_provider(given)), given, annealed=True), LaunchParty.HOST)


# -- the configuration --


def test_faults_of_machines_are_named_with_their_path() -> None:
    good = StaticMachine(name="n1", labels=("small",), host_keys=("ssh-rsa AAAA root@n1",))
    odd = (replace(good, name="-oProxyCommand"), replace(good, name="n4", host_keys=("AAAA",)))
    pools = {
        name: ProviderPool(name=name, provider="p", machines=machines, options=options)
        for name, machines, options in (("main", (good, *odd), {}), ("more", (good,), {"colour": "blue"}))
    }
    assert launching.faults(LaunchProvider(name="p", driver="static", pools=pools)) == [
        "pools[more].colour: unknown key `colour`; known here: no key at all",
        "pools[main].nodes[-oProxyCommand]: `-oProxyCommand` is neither an address nor a host name; correct the name",
        "pools[main].nodes[n4].host-key: must be TYPE BASE64, as in ssh-keyscan, and is text 'AAAA'",
        "pools[more].nodes[n1]: machine zuul@n1:22 stands in pool main too; name it once, with all labels",
    ]


def test_a_slot_is_one_instance() -> None:
    assert launching.resources(LaunchProvider(name="p", driver="static"), LABEL) == {"instances": 1}


def test_a_node_that_nodepool_registered_is_checked_by_the_name_of_its_machine(farm: Farm) -> None:
    given = machine(farm)
    with closing(opened(static_provider(given))) as provider:
        assert provider.check(given.name, (host_key(farm),)) is None
        assert provider.check("another.example.com", ()) is not None


# -- keys of leases that were killed --


def authorized(farm: Farm) -> Path:
    return farm.state_dir("m0.farm.example.com").parent / ".ssh" / "authorized_keys"


OTHERS = "ssh-ed25519 AAAA1 ann@host\n# nodepool-ocb-lease-5f is no key\nssh-ed25519 AAAA2 nodepool-ocb-lease-x y\n"
LEFT = "".join(
    f'expiry-time="29991231235959" ssh-ed25519 AAAA3 nodepool-ocb-lease-{mark}\n'
    for mark in ("0123456789abcdef", "0123456789abcdef-slot0", "fedcba9876543210-slot1")
)


def leave(farm: Farm, text: str, mode: int = 0o640) -> Path:
    file = authorized(farm)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize("mode", [0o640, 0o400])
def test_keys_of_killed_leases_go_before_the_next_user_and_the_rest_of_the_file_stays(farm: Farm, mode: int) -> None:
    file = leave(farm, OTHERS + LEFT, mode)
    before = file.stat()
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    made(lend(provider, given))
    after = file.stat()
    assert file.read_text() == OTHERS
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert [each.name for each in file.parent.iterdir()] == ["authorized_keys"]
    made(lend(provider, given))
    assert file.stat().st_ino == after.st_ino, "without such a key nothing is written"
    provider.close()


def test_of_several_slots_the_keys_of_the_other_ones_stay(farm: Farm) -> None:
    file = leave(farm, OTHERS + LEFT)
    given = machine(farm, slots=2)
    provider = opened(static_provider(given), with_keys(farm))
    made(lend(provider, given))
    assert "-slot0" not in file.read_text()
    assert "fedcba9876543210-slot1" in file.read_text()
    provider.close()


def test_returned_slots_of_a_machine_are_lent_with_one_question_to_it(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    further = OTHERS + 'expiry-time="29991231235959" ssh-ed25519 AAAA4 nodepool-ocb-lease-0a-slot2\n'
    file, asked = leave(farm, further + LEFT), list[tuple[int, ...]]()
    withdraw = leasekeys.withdraw

    def counted(link: Link, slots: Iterable[int], count: int, seconds: float) -> str | None:
        asked.append(tuple(slots))
        return withdraw(link, asked[-1], count, seconds)

    monkeypatch.setattr(leasekeys, "withdraw", counted)
    given = machine(farm, slots=3)
    provider = opened(static_provider(given), with_keys(farm))
    pool = ProviderPool(name="main", provider="p", labels={"small": LABEL}, machines=(given,))
    orders = [new_order(LABEL, pool=pool, machine=given.name, slot=slot) for slot in (0, 1, 7)]
    first, second, absent = provider.renew(orders)
    assert [made(each).external_id.rpartition("#")[2] for each in (first, second)] == ["0", "1"]
    assert "has no slot 7" in refused(absent, LaunchParty.REQUEST)
    assert asked == [(0, 1)]
    assert "-slot0" not in file.read_text()
    assert "-slot1" not in file.read_text()
    assert "0a-slot2" in file.read_text()
    provider.close()


def test_a_machine_without_the_file_is_lent(farm: Farm) -> None:
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    assert not authorized(farm).exists()
    made(lend(provider, given))
    assert not authorized(farm).exists()
    provider.close()


def test_a_linked_file_with_keys_of_leases_is_a_fault_of_the_machine_with_the_next_step(
    farm: Farm, tmp_path: Path
) -> None:
    target = tmp_path / "keys"
    file = authorized(farm)
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(target)
    given = machine(farm)
    provider = opened(static_provider(given), with_keys(farm))
    made(lend(provider, given))  # the target is absent
    target.write_text(OTHERS)
    made(lend(provider, given))
    target.write_text(OTHERS + LEFT)
    said = refused(lend(provider, given), LaunchParty.MACHINE)
    assert (
        "is a symbolic link and has keys of ended leases; remove the lines that end in nodepool-ocb-lease-..." in said
    )
    assert target.read_text() == OTHERS + LEFT
    provider.close()


def test_a_file_that_cannot_be_replaced_is_a_fault_of_the_machine(farm: Farm) -> None:
    file = leave(farm, LEFT)
    (file.parent / ".nodepool-ocb.lock").write_text("a file in the place of the lock")
    given = machine(farm, timeout_seconds=5.0)
    provider = opened(static_provider(given), with_keys(farm))
    assert "cannot be made, so keys of ended leases stay" in refused(lend(provider, given), LaunchParty.MACHINE)
    provider.close()


def test_without_a_login_of_this_host_the_machine_is_lent_and_the_keys_wait_for_their_end(farm: Farm) -> None:
    file = leave(farm, LEFT)
    given = machine(farm)
    made(lend(opened(static_provider(given)), given))
    assert file.read_text() == LEFT

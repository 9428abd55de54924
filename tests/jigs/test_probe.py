"""Whether a machine is there, and at which step it is not; and the connections that are kept."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb.config import SshSettings, loose_keys
from nodepool_ocb.jigs.jig import Party
from nodepool_ocb.jigs.ssh.keys import load_keys
from nodepool_ocb.jigs.ssh.link import Link
from nodepool_ocb.jigs.ssh.pool import Pool
from nodepool_ocb.jigs.ssh.probe import Alive, NoKey, OwnFault, Prober, Unreachable
from nodepool_ocb.testing.machines import Farm
from tests.jigs.workshop import Annealer


def prober(machine: Any, **ssh: Any) -> Prober:
    return Prober(machine.settings(**ssh))


def test_a_machine_that_lets_us_in_is_alive(machine: Any) -> None:
    assert prober(machine).probe(machine.fqdn, machine.node) == Alive()


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ("echo This account is disabled", "the login does not run .*: This account is disabled$"),
        ("echo not allowed: $SSH_ORIGINAL_COMMAND", "does not run .*: not allowed: printf"),
        ("true", "the login does not run the command that it is sent$"),
        ("echo This account is not available.; exit 1", "exit code 1: This account is not available.$"),
    ],
)
def test_a_login_that_runs_something_else_is_not_alive_with_what_it_says(machine: Any, instead: str, said: str) -> None:
    machine.farm.force(0, instead)
    answer = prober(machine).probe(machine.fqdn, machine.node)
    assert isinstance(answer, Unreachable)
    assert answer.step == "run"
    assert re.search(said, answer.reason), answer.reason


AS_NOBODY = 'setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "$SSH_ORIGINAL_COMMAND"'
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another login")


@needs_root
def test_a_login_that_cannot_keep_the_runner_s_state_is_not_alive_and_told_the_ways_out(machine: Any) -> None:
    machine.farm.force(0, AS_NOBODY)
    answer = prober(machine, state_dir="/var/lib/nodepool-ocb").probe(machine.fqdn, machine.node)
    assert isinstance(answer, Unreachable)
    assert answer.why == (
        f"run: login {machine.node.user} cannot write to /var/lib/nodepool-ocb on the machine:"
        " log in as root, set ssh.become (sudo -n -H), or set ssh.state_dir"
    )
    assert prober(machine, state_dir="/tmp/of-nobody").probe(machine.fqdn, machine.node) == Alive()
    assert not Path("/tmp/of-nobody").exists(), "a probe makes nothing"


@needs_root
def test_a_run_as_a_login_that_cannot_keep_the_runner_s_state_is_told_the_same_ways_out(machine: Any) -> None:
    """A change of ``user`` reaches a run before the next probe."""
    machine.farm.force(0, AS_NOBODY)
    one = Annealer(machine.settings(state_dir="/var/lib/nodepool-ocb"))
    try:
        outcome = one.run(machine.order("echo no"))
    finally:
        one.jig.close()
    assert isinstance(outcome, Unreachable)
    assert "log in as root, set ssh.become (sudo -n -H), or set ssh.state_dir" in outcome.why


@pytest.fixture
def sudo() -> Iterator[Path]:
    """A program by which the group nogroup, and nothing else, becomes root."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    program = Path(shutil.copy(shutil.which("setpriv") or "", folder / "setpriv"))
    os.chown(program, 0, 65534)
    program.chmod(0o4750)
    yield program
    shutil.rmtree(folder)


@needs_root
def test_a_login_that_may_become_root_runs_the_roles_as_root(machine: Any, sudo: Path) -> None:
    machine.farm.force(0, AS_NOBODY)
    become = f"{sudo} --reuid=0 --regid=0 --clear-groups"
    settings = machine.settings(become=become)
    assert Prober(settings).probe(machine.fqdn, machine.node) == Alive()
    one = Annealer(settings)
    try:
        outcome = one.run(machine.order("id -u; read_attribute a; sleep 0.1; echo end", attributes={"a": "it's"}))
    finally:
        one.jig.close()
    assert (outcome.tail, machine.events()) == ("0\nit's\nend\n", ["start", "end"])


def test_a_login_that_is_root_needs_no_way_to_become_it(machine: Any) -> None:
    assert prober(machine, become="/nowhere/sudo").probe(machine.fqdn, machine.node) == Alive()


def test_a_shell_that_greets_is_alive(machine: Any) -> None:
    machine.farm.force(0, 'echo welcome; printf "no new line"; eval "$SSH_ORIGINAL_COMMAND"; echo bye >&2')
    assert prober(machine).probe(machine.fqdn, machine.node) == Alive()


def test_the_first_contact_tells_the_key_to_pin(machine: Any) -> None:
    unknown = replace(machine.node, host_keys=())
    assert prober(machine).probe(machine.fqdn, unknown) == Alive(machine.node.host_keys[0])


def test_an_unknown_machine_is_refused_where_that_is_wanted(machine: Any) -> None:
    answer = prober(machine, first_contact="refuse").probe(machine.fqdn, replace(machine.node, host_keys=()))
    assert isinstance(answer, Unreachable)
    assert answer.step == "host key"
    assert machine.node.host_keys[0] in answer.reason


def test_another_host_key_is_refused_and_no_order_is_given(machine: Any, annealer: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    node = replace(machine.node, host_keys=(other.with_suffix(".pub").read_text().strip(),))
    answer = prober(machine).probe(machine.fqdn, node)
    assert isinstance(answer, Unreachable)
    assert answer.step == "host key"
    outcome = annealer.run(machine.order("true", record=node))
    assert outcome == replace(answer, begun=False)
    assert not machine.state.exists()


def reinstalled(machine: Any) -> None:
    """It shows another host key from now on."""
    machine.farm.kill(0)
    for file in (machine.farm.directory / "m0").glob("host_key*"):
        file.unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", machine.farm.directory / "m0/host_key"], check=True
    )
    machine.farm.start(0)


def test_a_key_seen_at_first_contact_counts_until_it_is_pinned(machine: Any) -> None:
    one = prober(machine)
    unknown = replace(machine.node, host_keys=())
    assert isinstance(one.probe(machine.fqdn, unknown), Alive)
    reinstalled(machine)
    answer = one.probe(machine.fqdn, unknown)
    assert isinstance(answer, Unreachable)
    assert answer.step == "host key"


@pytest.mark.parametrize("meanwhile", [{"host_keys": ("ssh-ed25519 AAAA",)}, {"epoch_base": 7}, {"user": "somebody"}])
def test_what_was_seen_first_is_forgotten_with_the_record(machine: Any, meanwhile: dict[str, Any]) -> None:
    """Pinned or replaced meanwhile, deleted and created again, or reached in another way."""
    one = prober(machine)
    unknown = replace(machine.node, host_keys=())
    assert isinstance(one.probe(machine.fqdn, unknown), Alive)
    reinstalled(machine)
    one.probe(machine.fqdn, replace(unknown, **meanwhile))
    fresh = replace(unknown, epoch_base=meanwhile.get("epoch_base", 0))
    assert isinstance(one.probe(machine.fqdn, fresh), Alive)


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"addresses": ("127.0.0.1:99999",)}, "resolve"),
        ({"addresses": ("127.0.0.1:1",)}, "connect"),
        ({"user": "nobody-like-this"}, "authenticate"),
    ],
)
def test_a_probe_says_which_step_failed(machine: Any, change: dict[str, Any], step: str) -> None:
    answer = prober(machine).probe(machine.fqdn, replace(machine.node, **change))
    assert isinstance(answer, Unreachable)
    assert answer.step == step


@pytest.mark.parametrize("alive", [True, False])
def test_a_name_that_is_not_known_is_the_fault_of_this_host_where_the_machine_was_reached_by_it(
    machine: Any, alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    node = replace(machine.node, addresses=("no-such-host.invalid",), alive=alive)
    if alive:
        with pytest.raises(OwnFault, match=r"^resolve: Name or service not known$"):
            prober(machine).probe(machine.fqdn, node)
    else:
        answer = prober(machine).probe(machine.fqdn, node)
        assert (answer.step, answer.party) == ("resolve", Party.MACHINE)  # type: ignore[union-attr]


def test_a_key_that_this_host_does_not_have_is_no_answer_of_a_machine(machine: Any, tmp_path: Path) -> None:
    with pytest.raises(NoKey, match="none of the key files exists: /no/such/key"):
        prober(machine, key_files=["/no/such/key"]).probe(machine.fqdn, machine.node)
    garbage = tmp_path / "key"
    garbage.write_text("no key")
    with pytest.raises(NoKey, match=f"key file {garbage}"):
        prober(machine, key_files=[str(garbage)]).probe(machine.fqdn, machine.node)


def key_pair(folder: Path, passphrase: str = "") -> Path:
    """A private key; its public half is beside it, and both may be read by all."""
    file = folder / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", file], check=True)
    file.chmod(0o644)
    return file


@pytest.mark.parametrize(
    ("name", "passphrase", "said"),
    [
        (".", "", "is a folder; name a private key in it"),
        ("id.pub", "", "is the public half; name the file without .pub, "),
        ("id", "hidden", "has a passphrase, which an annealer cannot type; use a key without a passphrase"),
    ],
)
def test_a_file_that_is_no_key_to_log_in_with_is_told_by_what_it_is(
    tmp_path: Path, name: str, passphrase: str, said: str
) -> None:
    key_pair(tmp_path, passphrase)
    with pytest.raises(NoKey, match=rf"^ssh\.key_files: key file {tmp_path / name} {said}"):
        load_keys(SshSettings(key_files=(str(tmp_path / name),)))


def test_only_a_private_key_is_said_to_be_open_to_others(tmp_path: Path) -> None:
    key = key_pair(tmp_path)
    settings = SshSettings(key_files=(str(tmp_path), f"{key}.pub", str(key)))
    assert loose_keys(settings) == [
        f"ssh.key_files: key file {key} may be used by others than its owner; chmod 600 {key}"
    ]


def test_addresses_are_tried_in_their_order(machine: Any) -> None:
    node = replace(machine.node, addresses=("127.0.0.1:1", *machine.node.addresses))
    assert prober(machine).probe(machine.fqdn, node) == Alive()


def test_a_port_that_says_nothing_is_unreachable_in_bounded_time(machine: Any) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        node = replace(machine.node, addresses=(f"127.0.0.1:{mute.getsockname()[1]}",))
        began = time.monotonic()
        answer = prober(machine, connect_timeout_seconds=1.0).probe(machine.fqdn, node)
    assert isinstance(answer, Unreachable)
    assert answer.step == "connect"
    assert time.monotonic() - began < 5.0


def test_a_frozen_machine_does_not_hold_a_probe(machine: Any) -> None:
    one = prober(machine, connect_timeout_seconds=1.0)
    assert one.probe(machine.fqdn, machine.node) == Alive()
    machine.farm.freeze(0)
    began = time.monotonic()
    assert isinstance(one.probe(machine.fqdn, machine.node), Unreachable)
    assert isinstance(one.probe(machine.fqdn, machine.node), Unreachable)
    assert time.monotonic() - began < 8.0
    machine.farm.thaw(0)
    assert one.probe(machine.fqdn, machine.node) == Alive()


# -- the pool --


def test_a_connection_is_kept_and_used_again(machine: Any) -> None:
    pool = Pool(machine.settings())
    first = pool.take(machine.fqdn, machine.node)
    assert isinstance(first, Link)
    pool.give_back(first)
    assert pool.take(machine.fqdn, machine.node) is first
    pool.close()


def test_a_changed_record_is_connected_to_anew(machine: Any) -> None:
    pool = Pool(machine.settings())
    first = pool.take(machine.fqdn, machine.node)
    pool.give_back(first)
    assert isinstance(pool.take(machine.fqdn, replace(machine.node, user="nobody-like-this")), Unreachable)
    pool.close()


def test_the_least_recently_used_connections_go_first(tmp_path: Path) -> None:
    with Farm(3, tmp_path / "farm") as farm:
        pool = Pool(msgspec.convert(farm.settings() | {"pool": 2}, SshSettings))
        links = [pool.take(fqdn, node) for fqdn, node in farm.records()]
        assert len(pool) == 3, "what is in use stays"
        for link in links:
            pool.give_back(link)
        assert len(pool) == 2
        assert [link.alive for link in links] == [False, True, True]
        pool.close()


def test_an_idle_connection_is_closed_after_its_time(tmp_path: Path) -> None:
    with Farm(2, tmp_path / "farm") as farm:
        pool = Pool(msgspec.convert(farm.settings() | {"idle_seconds": 0.0}, SshSettings))
        first, second = (pool.take(fqdn, node) for fqdn, node in farm.records())
        pool.give_back(first)
        pool.give_back(second)
        assert not first.alive
        pool.close()


def test_a_step_looks_at_its_own_connection_and_rarely_at_those_of_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    alive = Link.alive.fget
    assert alive is not None
    monkeypatch.setattr(Link, "alive", property(lambda link: looks.append(link.fqdn) or alive(link)))
    with Farm(6, tmp_path / "farm") as farm:
        pool = Pool(msgspec.convert(farm.settings(), SshSettings))
        for fqdn, node in farm.records():
            link = pool.take(fqdn, node)
            assert isinstance(link, Link)
            pool.give_back(link)
        looks.clear()
        began = time.monotonic()
        fqdn, node = farm.records()[0]
        for _ in range(300):
            link = pool.take(fqdn, node)
            assert isinstance(link, Link)
            pool.give_back(link)
        sweeps = time.monotonic() - began + 1.0  # one a second
        assert len(looks) <= 300 + 6 * (sweeps + 1)
        pool.close()

"""Jig task-sync with the real rsync, pushed through the jig's own connection and fetched from a daemon."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodepool_ocb.config import Settings, TasksSettings
from nodepool_ocb.jigs import Detached, Failed, Fenced, Succeeded, Unknown
from nodepool_ocb.jigs.tasks import sync
from nodepool_ocb.jigs.tasks.sync import SyncJig
from nodepool_ocb.testing.ports import free_port
from tests.jigs.workshop import Annealer, Machine, until

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None, reason="there is no rsync here; tools/setup installs it")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
NOBODY = pwd.getpwnam("nobody")

#: An annealer's end of a push, as a process that can be killed and frozen.
PUSHER = """
import sys, threading
import msgspec
from nodepool_ocb.config import Settings
from nodepool_ocb.jigs.jig import Order
from nodepool_ocb.jigs.tasks.sync import SyncJig
settings, order = msgspec.json.decode(sys.argv[1], type=Settings), msgspec.json.decode(sys.argv[2], type=Order)
print(type(SyncJig(settings).run(order, threading.Event())).__name__, flush=True)
"""


@pytest.fixture
def syncer(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), SyncJig)
    yield one
    one.jig.close()


@pytest.fixture
def successor(machine: Machine) -> Iterator[Annealer]:
    one = Annealer(machine.settings(), SyncJig)
    yield one
    one.jig.close()


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src it's"
    (folder / "modules" / "deep").mkdir(parents=True)
    (folder / "modules" / "deep" / "a").write_text("A")
    (folder / "b").write_bytes(bytes(range(256)) * 10_000)
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    return folder


@pytest.fixture
def dst(tmp_path: Path) -> Path:
    return tmp_path / "new" / "dst"


def parameters(src: Path | str, dst: Path) -> dict[str, Any]:
    return {"src": f"{src}/", "dst": str(dst)}


def tree(folder: Path) -> dict[str, Any]:
    """Every file with what it holds, every link with where it leads."""
    return {
        str(each.relative_to(folder)): os.readlink(each) if each.is_symlink() else each.read_bytes()
        for each in folder.rglob("*")
        if each.is_symlink() or each.is_file()
    }


def words(pid: object) -> list[bytes]:
    """The command line of a process, while there is such."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def receivers(machine: Machine) -> list[int]:
    """The processes of rsync that receive on the machine."""
    return [pid for pid in machine.farm.processes(0) if words(pid)[:2] == [b"rsync", b"--server"]]


def senders(src: Path) -> list[int]:
    """The processes of rsync that send what is in this directory."""
    every = (int(place.name) for place in Path("/proc").glob("[0-9]*"))
    return [pid for pid in every if words(pid)[:2] == [b"rsync", b"-e"] and f"{src}/".encode() in words(pid)]


# -- what is there afterwards --


def test_a_directory_arrives_whole_and_what_was_there_besides_is_gone(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    dst.mkdir(parents=True)
    (dst / "besides").write_text("old")
    (dst / "b").write_text("old")
    order = machine.task(parameters(src, dst))
    outcome = syncer.run(order)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.attributes == order.attributes
    assert tree(dst) == tree(src)
    assert os.access(dst / "program", os.X_OK)
    assert not list(machine.state.glob("runs/*.push*")), "the pipes are gone"


def test_a_missing_destination_is_made_and_no_slash_means_the_directory_itself(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    outcome = syncer.run(machine.task({"src": str(src), "dst": str(dst)}))
    assert isinstance(outcome, Succeeded), outcome
    assert tree(dst / src.name) == tree(src)


def test_what_has_the_same_size_and_time_and_another_text_is_sent(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    assert isinstance(syncer.run(machine.task(parameters(src, dst))), Succeeded)
    (dst / "b").write_bytes(bytes(reversed(range(256))) * 10_000)
    for file in (src / "b", dst / "b"):
        os.utime(file, (1, 1))
    assert isinstance(syncer.run(machine.task(parameters(src, dst), epoch=2, generation=2)), Succeeded)
    assert tree(dst) == tree(src)


def test_an_empty_directory_empties_the_destination(machine: Any, syncer: Any, tmp_path: Path, dst: Path) -> None:
    dst.mkdir(parents=True)
    (dst / "old").touch()
    (tmp_path / "empty").mkdir()
    assert isinstance(syncer.run(machine.task(parameters(tmp_path / "empty", dst))), Succeeded)
    assert list(dst.iterdir()) == []


def test_a_noop_run_says_what_would_change_and_changes_nothing(machine: Any, syncer: Any, src: Path, dst: Path) -> None:
    first = syncer.run(machine.task(parameters(src, dst), noop=True))
    assert first.tail == f"would make the directory {dst}, and copy all of {src}/ to it\n"
    assert not dst.exists()
    dst.mkdir(parents=True)
    (dst / "besides").touch()
    second = syncer.run(machine.task(parameters(src, dst), noop=True, epoch=2, generation=2))
    assert isinstance(second, Succeeded), second
    assert "*deleting   besides" in second.tail
    assert "modules/deep/a" in second.tail
    assert [each.name for each in dst.iterdir()] == ["besides"]


# -- where it must not go --


@as_root
def test_a_destination_behind_a_link_of_another_user_is_refused(
    machine: Any, syncer: Any, src: Path, tmp_path: Path
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "link").symlink_to("inside")
    os.chown(tmp_path / "link", NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    outcome = syncer.run(machine.task(parameters(src, tmp_path / "link")))
    assert isinstance(outcome, Failed)
    assert outcome.reason.endswith("it is not followed")
    assert not list((tmp_path / "inside").iterdir())


def test_a_link_in_the_destination_is_replaced_and_what_it_leads_to_is_left_alone(
    machine: Any, syncer: Any, src: Path, dst: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").touch()
    dst.mkdir(parents=True)
    (dst / "modules").symlink_to(other)
    (dst / "b").symlink_to(other / "precious")
    assert isinstance(syncer.run(machine.task(parameters(src, dst))), Succeeded)
    assert tree(dst) == tree(src)
    assert {each.name: each.stat().st_size for each in other.iterdir()} == {"precious": 0}


@pytest.mark.parametrize(
    "wrong", [{"dst": "relative"}, {"dst": "/a/../b"}, {"src": "relative/"}, {"src": "/a/../b"}], ids=str
)
def test_paths_that_are_none_are_refused_before_anything_runs(
    machine: Any, syncer: Any, src: Path, dst: Path, wrong: dict[str, str]
) -> None:
    assert isinstance(syncer.run(machine.task(parameters(src, dst) | wrong)), Failed)
    assert machine.events() == []


# -- what fails --


def test_a_directory_that_is_not_there_fails_the_task(machine: Any, syncer: Any, dst: Path) -> None:
    outcome = syncer.run(machine.task(parameters("/no/such", dst)))
    assert isinstance(outcome, Failed)
    assert "src /no/such/ on the annealer's host" in outcome.reason


def test_a_directory_outside_the_sources_or_with_a_key_in_it_is_refused_before_the_machine_is_asked(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    narrow = Annealer(machine.settings(), SyncJig, (f"{src}/modules",))
    outside = narrow.run(machine.task(parameters(src, dst)))
    narrow.jig.close()
    keys = syncer.run(machine.task(parameters(Path(machine.settings().key_files[0]).parent, dst)))
    assert [outside.forbidden, keys.forbidden] == ["tasks.sources"] * 2
    assert f"{src}/ is outside tasks.sources ({src}/modules)" in outside.reason
    assert "holds, a key of this host" in keys.reason
    assert machine.events() == []


def test_a_link_to_a_directory_of_the_sources_is_synced_as_what_it_leads_to(
    machine: Any, syncer: Any, src: Path, dst: Path, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(src)
    assert isinstance(syncer.run(machine.task(parameters(tmp_path / "alias", dst))), Succeeded)
    assert tree(dst) == tree(src)
    real = str(src.resolve())
    assert syncer.jig._path(f"{tmp_path}/alias/") == f"{real}/", "rsync does not resolve the links again"
    assert syncer.jig._path(f"{tmp_path}/alias/modules") == f"{real}/modules"


def test_a_host_without_rsync_is_no_failure_of_the_task(
    machine: Any, syncer: Any, src: Path, dst: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync.shutil, "which", lambda _: None)
    outcome = syncer.run(machine.task(parameters(src, dst)))
    assert isinstance(outcome, Unknown)
    assert not outcome.begun
    assert outcome.reason.endswith("install the package rsync")


def test_a_machine_without_rsync_is_told_with_the_package(
    machine: Any, syncer: Any, src: Path, dst: Path, tmp_path: Path
) -> None:
    machine.leave_out(tmp_path / "programs", "rsync")
    outcome = syncer.run(machine.task(parameters(src, dst)))
    assert isinstance(outcome, Failed)
    assert outcome.reason == "there is no program rsync on this machine; install the package rsync"


def test_what_rsync_cannot_do_fails_the_task_with_its_words(machine: Any, syncer: Any, src: Path) -> None:
    """Nothing can be written in /proc/sys."""
    outcome = syncer.run(machine.task(parameters(src, Path("/proc/sys/kernel"))))
    assert isinstance(outcome, Failed)
    assert outcome.reason.startswith("rsync: exit code ")
    assert outcome.exit_code
    assert "/proc" in outcome.tail or "failed" in outcome.tail


def test_an_rsync_of_this_host_that_is_killed_fails_the_attempt_at_once(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    outcome = syncer.begin(machine.task(parameters(big(src), dst)))
    until(lambda: list(dst.glob(".big.*")))
    for sender in senders(src):
        os.kill(sender, signal.SIGKILL)
    failed = outcome()
    assert isinstance(failed, Failed)
    assert failed.exit_code == 137
    assert failed.reason.startswith("rsync: exit code 137")
    assert not receivers(machine)


# -- who pushes --


def big(src: Path) -> Path:
    """So much that the push takes seconds."""
    (src / "big").write_bytes(os.urandom(1 << 20) * 64)
    return src


def pusher(machine: Any, order: Any) -> subprocess.Popen[str]:
    sources = TasksSettings(sources=("/",))
    settings = msgspec.json.encode(Settings(ssh=machine.settings(), tasks=sources)).decode()
    words = [sys.executable, "-c", PUSHER, settings, msgspec.json.encode(order).decode()]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_pusher_that_is_killed_or_frozen_does_not_act_beside_its_successor(
    machine: Any, successor: Any, src: Path, dst: Path, fate: signal.Signals
) -> None:
    before = set(receivers(machine))
    first = pusher(machine, machine.task(parameters(big(src), dst), log=None))
    try:
        until(lambda: list(dst.glob(".big.*")))
        first.send_signal(fate)
        old = set(receivers(machine)) - before
        assert old
        if fate is signal.SIGSTOP:
            for receiver in old:
                os.kill(receiver, fate)  # so it ends only if it is ended
        (src / "b").write_text("of the successor")
        pending = successor.begin(machine.task(parameters(src, dst), epoch=2, previous_epoch=1))
        until(lambda: set(receivers(machine)) - old - before)
        assert not old & set(receivers(machine))
        outcome = pending()
        assert isinstance(outcome, Succeeded), outcome
        assert outcome.ordered
        assert tree(dst) == tree(src)
        first.send_signal(signal.SIGCONT)
        said, _ = first.communicate(timeout=60)
        # It hears of the same run, or, over a new connection, that an order of a later epoch was taken.
        assert said in ("", "Succeeded\n", "Fenced\n")
        assert tree(dst) == tree(src)
    finally:
        first.kill()
        first.communicate()
    events = machine.events("start", "attach", "end")
    assert [event for event, _ in groupby(events)] == ["start", "attach", "end"], "it attaches again if a link breaks"


def test_a_push_under_an_old_epoch_is_ignored(machine: Any, syncer: Any, successor: Any, src: Path, dst: Path) -> None:
    """A later annealer has the node, and has yet to call: the earlier one neither begins another push nor ends the run."""
    outcome = syncer.begin(machine.task(parameters(big(src), dst)))
    until(lambda: list(dst.glob(".big.*")))
    (machine.state / "epoch.1").write_text("5 other@1 5\n")
    call = machine.run_file("push.late.call")
    call.write_text("1\n")
    until(lambda: "under epoch 1 comes too late" in machine.run_file("output").read_text())
    assert not machine.run_file("push.late.go").exists()
    until(lambda: (dst / "big").exists() and not receivers(machine))
    (src / "b").write_text("later")
    last = successor.run(machine.task(parameters(src, dst), epoch=6, previous_epoch=1, log=None))
    assert isinstance(last, Succeeded), last
    assert isinstance(outcome(), Succeeded)
    assert machine.events("start") == ["start"]
    assert tree(dst) == tree(src), "it was pushed anew"


def test_a_connection_that_breaks_while_it_pushes_is_made_again(
    machine: Any, syncer: Any, src: Path, dst: Path
) -> None:
    outcome = syncer.begin(machine.task(parameters(big(src), dst)))
    until(lambda: list(dst.glob(".big.*")))
    machine.farm.cut(0)
    assert isinstance(outcome(), Succeeded)
    assert tree(dst) == tree(src)
    assert machine.events("start") == ["start"]


def test_a_stopped_sync_leaves_no_receiver_and_the_run_waits_for_the_next(
    machine: Any, syncer: Any, successor: Any, src: Path, dst: Path
) -> None:
    outcome = syncer.begin(machine.task(parameters(big(src), dst), log=None))
    until(lambda: list(dst.glob(".big.*")))
    syncer.stop.set()
    assert outcome() == Detached()
    until(lambda: not receivers(machine))
    assert not senders(src)
    assert isinstance(successor.run(machine.task(parameters(src, dst), epoch=2, previous_epoch=1)), Succeeded)
    assert tree(dst) == tree(src)
    assert machine.events("start") == ["start"]


def test_a_push_is_ended_on_the_machine_when_it_is_cancelled(
    machine: Any, syncer: Any, successor: Any, src: Path, dst: Path
) -> None:
    outcome = syncer.begin(machine.task(parameters(big(src), dst)))
    until(lambda: list(dst.glob(".big.*")))
    assert successor.jig.cancel(machine.task({}, epoch=2)) is None
    assert not receivers(machine)
    assert outcome() == Fenced(2)


def test_a_successor_of_a_push_that_has_ended_is_given_its_result(
    machine: Any, syncer: Any, successor: Any, src: Path, dst: Path
) -> None:
    assert isinstance(syncer.run(machine.task(parameters(src, dst))), Succeeded)
    (src / "b").write_text("changed meanwhile")
    assert isinstance(successor.run(machine.task(parameters(src, dst), epoch=2, previous_epoch=1)), Succeeded)
    assert (dst / "b").read_bytes() != b"changed meanwhile"


# -- a daemon --


@pytest.fixture
def daemon(tmp_path: Path, src: Path) -> Iterator[str]:
    port = free_port()
    config = tmp_path / "rsyncd.conf"
    config.write_text(
        f"use chroot = no\naddress = 127.0.0.1\nport = {port}\n[puppet]\npath = {src}\nuid = 0\ngid = 0\n"
    )
    process = subprocess.Popen(["rsync", "--daemon", "--no-detach", f"--config={config}"])
    probe = ["rsync", f"rsync://127.0.0.1:{port}/"]
    until(lambda: subprocess.run(probe, capture_output=True, check=False).returncode == 0)
    yield f"rsync://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def test_a_directory_of_a_daemon_is_fetched_by_the_machine(
    machine: Any, syncer: Any, src: Path, dst: Path, daemon: str
) -> None:
    outcome = syncer.run(machine.task({"src": f"{daemon}/puppet/modules/", "dst": str(dst)}))
    assert isinstance(outcome, Succeeded), outcome
    assert tree(dst) == tree(src / "modules")
    noop = machine.task({"src": f"{daemon}/puppet/", "dst": str(dst)}, noop=True, epoch=2, generation=2)
    assert "program" in syncer.run(noop).tail
    assert tree(dst) == tree(src / "modules")


def test_a_daemon_that_has_no_such_directory_fails_the_task(machine: Any, syncer: Any, dst: Path, daemon: str) -> None:
    outcome = syncer.run(machine.task({"src": f"{daemon}/none/", "dst": str(dst)}))
    assert isinstance(outcome, Failed)
    assert outcome.reason == f"rsync: exit code 5: from {daemon}/none/"

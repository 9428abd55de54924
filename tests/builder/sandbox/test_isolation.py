"""Builds end, and nothing of them is left: daemons, mounts, loop devices, folders; whoever is killed."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nodepool_ocb_builder.backends import Command
from nodepool_ocb_builder.sandbox import isolation, leftovers
from tests.builder.sandbox.building import Builder, Context, running, within

GONE_SECONDS = 30.0  # at once after the builder was killed; on a machine at work processes end slowly

_numbers = itertools.count(1)

#: Daemons that deafen themselves, leave their session, forget their environment and their parents.
DAEMONS = """
setsid sh -c 'trap "" TERM HUP INT; sleep {token}; sleep {token}' &
setsid sh -c '(setsid sh -c "trap \\"\\" TERM; cd /; env -i sleep {token}; sleep {token}" &)' &
(cd /; trap "" TERM; env -i setsid sleep {token}) &
until [ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx {token})" -ge 4 ]; do sleep 0.02; done
touch begun"""  # grep finds itself too

#: A daemon that has left everything but its guard, waits for a file, and is followed by a child.
WAITING = """
(cd /; env -i setsid sh -c 'until [ -e {go} ]; do sleep 0.02; done; sleep {token} &' {token}) &
until [ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx {token})" -ge 2 ]; do sleep 0.02; done
touch begun"""

#: One that is followed by a child, which is followed by a child, and so on.
FORKING = """
(cd /; env -i setsid sh -c 'trap "" TERM; f() {{ sleep 0.02; f & }}; f' {token}) &
until [ "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cx {token})" -ge 2 ]; do sleep 0.02; done
touch begun"""


@pytest.fixture
def token() -> str:
    """A number that only this test's daemons sleep for."""
    return f"{os.getpid()}{next(_numbers):04d}"


def _begun(builder: Builder) -> bool:
    return (builder.work / "begun").exists()


def _guard(builder: Builder) -> int:
    return int(Path(f"/proc/{builder.supervisor}/task/{builder.supervisor}/children").read_text())


def _gone(token: str) -> bool:
    """Whether no process has this word: looked at often, for one look can miss what forks and ends meanwhile."""
    return not any(running(token) for _ in range(20))


# -- the plain case --


def test_a_build_runs_in_its_folder_and_its_output_is_the_log(context: Context) -> None:
    with context.begin("pwd; echo error >&2; cat; umask; mkdir -p a/b; touch a/b/c tmp/d") as builder:
        assert builder.ended() == (0, None)
    *said, last = builder.lines()
    assert said == [str(builder.work), "error", "0022"]
    assert last.startswith("-- ended: exit status 0, after ")
    assert builder.namespaces == {"root": "root", "user": "user", "bare": "none"}[context.flavour]


def test_the_environment_is_the_commands_and_nothing_else(context: Context) -> None:
    with context.begin_command(("env",), {"DIB_RELEASE": "bookworm", "LANG": "de_DE.UTF-8"}) as builder:
        assert builder.ended() == (0, None)
    env = dict(line.split("=", 1) for line in builder.lines()[:-1])
    assert {"/usr/sbin", "/usr/bin"} <= set(env.pop("PATH").split(":"))
    assert env == {
        "HOME": str(builder.work),
        "TMPDIR": f"{builder.work}/tmp",
        "LANG": "de_DE.UTF-8",
        "DIB_RELEASE": "bookworm",
        "NODEPOOL_OCB_WORK": str(builder.work),
    }


def test_no_descriptor_but_the_three_and_no_terminal_comes_to_the_build(context: Context) -> None:
    script = "ls -l /proc/self/fd; cut -d' ' -f5-7 /proc/$$/stat; echo $$"
    with context.begin(script) as builder:
        assert builder.ended() == (0, None)
    _, *listed, process, pid, _ = builder.lines()
    files = [" ".join(line.split()[-3:]) for line in listed if "/proc/" not in line]  # but ls's own
    wanted = {"0": "/dev/null", "1": str(builder.log), "2": str(builder.log)}
    assert [line.partition(" -> ")[0] for line in files] == list(wanted)
    assert all(line.endswith(wanted[line[0]]) for line in files), files  # in a chroot, with what is above it before
    assert process == f"{pid} {pid} 0", "the leader of a session without a terminal"


def test_a_build_with_namespaces_sees_only_itself(context: Context) -> None:
    with context.begin("ls /proc | grep -c '^[0-9]'") as builder:
        assert builder.ended() == (0, None)
    count = int(builder.lines()[0])
    assert (count < 6) == (context.flavour != "bare")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 3", (3, "exit status 3")),
        ("kill -9 $$", (None, "ended by SIGKILL")),
        ("kill $$", (None, "ended by SIGTERM")),
    ],
)
def test_a_failure_has_its_reason(context: Context, script: str, expected: tuple[int | None, str]) -> None:
    with context.begin(f"printf half; {script}") as builder:
        assert builder.ended() == expected
    assert builder.lines()[0] == "half"
    assert builder.lines()[1].startswith(f"-- ended: {expected[1]}, after ")


def test_a_program_that_is_not_there_is_said_in_words(context: Context) -> None:
    with context.begin_command(("no-such-program",)) as builder:
        exit_code, reason = builder.ended()
    assert exit_code is None
    assert reason in (
        "could not be started: no-such-program: No such file or directory",
        "could not be started: no-such-program: Permission denied",  # PATH has folders that this user may not search
    )


def test_a_log_goes_on_where_it_ended(context: Context) -> None:
    with context.begin("echo $(($(wc -l <../logs/debian-0000000001.log)))") as builder:
        assert builder.ended() == (0, None)
    assert len(builder.lines()) == 2
    assert builder.lines()[0] == "0"


def test_the_log_can_be_followed(context: Context, until: Callable[..., None]) -> None:
    with context.begin("echo early; until [ -e go ]; do sleep 0.02; done; printf late") as builder:
        until(lambda: builder.log.exists() and builder.lines() == ["early"])
        (builder.work / "go").touch()
        assert builder.ended() == (0, None)
    assert builder.lines()[:2] == ["early", "late"]


def test_a_temporary_folder_elsewhere_is_the_builds_own_and_goes_too(context: Context) -> None:
    elsewhere = context.images / "logs"
    with context.begin("touch $TMPDIR/x; echo $TMPDIR; ls ../logs", {"TMPDIR": str(elsewhere)}) as builder:
        assert builder.ended() == (0, None)
    assert builder.lines()[0].startswith(f"{elsewhere / builder.work.name}.")
    assert [path.name for path in elsewhere.iterdir()] == [builder.log.name]


def test_a_folder_of_another_clusters_build_of_this_name_is_left_alone(context: Context) -> None:
    elsewhere = context.images / "logs"
    others = [elsewhere / f"debian-{number:010}.build" for number in range(3)]
    for folder in (elsewhere, *others):
        folder.mkdir()
        os.chown(folder, context.user.pw_uid, context.user.pw_gid)
    with context.begin("touch $TMPDIR/mine", {"TMPDIR": str(elsewhere)}) as builder:
        assert builder.work.name in [other.name for other in others]
        assert builder.ended() == (0, None)
    assert sorted(path for path in elsewhere.iterdir() if path.is_dir()) == others
    assert not any(list(other.iterdir()) for other in others)


def test_a_link_out_of_the_work_folder_is_not_followed(context: Context, tmp_path: Path) -> None:
    (tmp_path / "keep").touch()
    with context.begin(f"rm -r tmp; ln -s {tmp_path} tmp; ln -s {tmp_path} b; ln -s {tmp_path}/keep c") as builder:
        assert builder.ended() == (0, None)
    assert (tmp_path / "keep").exists()


# -- its end --


def test_daemons_end_with_the_build(context: Context, token: str) -> None:
    with context.begin(DAEMONS.format(token=token)) as builder:
        assert builder.ended() == (0, None)
        assert running(token) == []


def test_a_build_ends_at_its_time_out(context: Context, token: str) -> None:
    script = f"trap 'echo asked; exit 0' TERM; {DAEMONS}; while :; do sleep 0.05; done"
    with context.begin(script.format(token=token), timeout_seconds=2.0) as builder:
        assert builder.ended() == (0, "timed out after 2 s")
        assert running(token) == []
    assert builder.lines()[-2] == "asked"
    assert builder.lines()[-1].startswith("-- ended: timed out after 2 s, after ")


def test_a_deaf_build_ends_after_the_grace(context: Context, token: str, until: Callable[..., None]) -> None:
    with context.begin(f"trap '' TERM; {DAEMONS}; while :; do sleep 0.05; done".format(token=token)) as builder:
        until(lambda: _begun(builder))
        began = time.monotonic()
        builder.stop(0.5)
        assert builder.ended() == (None, "was stopped")
        assert within(3.0, began)
        assert running(token) == []


def test_a_build_that_ends_well_when_it_is_stopped_did_not_succeed(
    context: Context, until: Callable[..., None]
) -> None:
    with context.begin("trap 'exit 0' TERM; touch begun; while :; do sleep 0.02; done") as builder:
        until(lambda: _begun(builder))
        builder.stop(30.0)
        assert builder.ended() == (0, "was stopped")


def test_nothing_is_left_when_the_builder_is_killed(context: Context, token: str, until: Callable[..., None]) -> None:
    with context.begin(f"{DAEMONS}; sleep {{token}}".format(token=token)) as builder:
        until(lambda: _begun(builder))
        builder.program.kill()
        until(lambda: not running(token) and not context.left(), GONE_SECONDS)
    until(lambda: builder.lines()[-1].startswith("-- ended: the builder is gone, after "))


def test_nothing_is_left_when_the_supervisor_is_killed(
    context: Context, token: str, until: Callable[..., None]
) -> None:
    with context.begin(f"{DAEMONS}; sleep {{token}}".format(token=token)) as builder:
        until(lambda: _begun(builder))
        os.kill(builder.supervisor, signal.SIGKILL)
        assert builder.ended() == (None, "its supervisor ended with status -9")
        until(lambda: not running(token), GONE_SECONDS)
    assert builder.lines()[-1] == "-- ended: its supervisor ended with status -9"


def test_when_builder_and_supervisor_are_killed_the_next_builder_sweeps(
    context: Context, token: str, until: Callable[..., None]
) -> None:
    with context.begin(f"{DAEMONS}; sleep {{token}}".format(token=token)) as builder:
        until(lambda: _begun(builder))
        builder.program.kill()
        os.kill(builder.supervisor, signal.SIGKILL)
        until(lambda: not running(token), GONE_SECONDS)
        assert builder.work.exists()
        assert isolation.sweep(context.images) == []
    assert context.left() == []


def test_a_sweep_ends_what_runs_and_touches_nothing_else(
    context: Context, token: str, until: Callable[..., None]
) -> None:
    kept = context.images / "debian-0000000001.qcow2"
    kept.touch()
    with context.begin(f"{DAEMONS}; sleep {{token}}".format(token=token)) as builder:
        until(lambda: _begun(builder))
        assert isolation.sweep(context.images) == []
        assert running(token) == []
    assert kept.exists()
    kept.unlink()


def test_what_is_forked_while_a_sweep_looks_does_not_escape(
    context: Context, token: str, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = leftovers.processes
    go = context.images / "go"

    def stale(work: Path) -> list[int]:
        found = listed(work)
        if not go.exists():
            before = running(token)
            go.touch()
            until(lambda: (now := running(token)) and not set(now) & set(before))
        return found

    with context.begin(f"{WAITING}; sleep 60".format(token=token, go=go)) as builder:
        until(lambda: _begun(builder))
        monkeypatch.setattr(leftovers, "processes", stale)
        assert isolation.sweep(context.images) == []
        assert running(token) == []
    go.unlink()


@pytest.mark.parametrize("killed", ["by a sweep", "with its supervisor", "with its guard", "with its builder"])
def test_a_process_that_forks_endlessly_is_ended(
    context: Context, token: str, killed: str, until: Callable[..., None]
) -> None:
    with context.begin(f"{FORKING}; sleep 60".format(token=token)) as builder:
        until(lambda: _begun(builder))
        match killed:
            case "by a sweep":
                assert isolation.sweep(context.images) == []
                assert _gone(token)
            case "with its supervisor":
                os.kill(builder.supervisor, signal.SIGKILL)
            case "with its guard":
                os.kill(_guard(builder), signal.SIGKILL)
            case "with its builder":
                builder.program.kill()
        until(lambda: _gone(token) and not context.left(), GONE_SECONDS)


def test_a_list_without_a_living_child_is_not_believed(token: str) -> None:
    script = """if True:
        import os, subprocess, sys
        from nodepool_ocb_builder.sandbox import leftovers
        child = subprocess.Popen(["sleep", sys.argv[1]], stdout=subprocess.DEVNULL)
        listed, misses = leftovers.descendants, [True]
        leftovers.descendants = lambda: [] if misses and misses.pop() else listed()
        print(leftovers.end_descendants(), misses, os.path.exists(f"/proc/{child.pid}"))
        child.kill()"""
    done = subprocess.run([sys.executable, "-c", script, token], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[] [] False\n"


def test_a_process_whose_first_thread_has_ended_is_alive(until: Callable[..., None]) -> None:
    script = """if True:
        import ctypes, threading, time
        threading.Thread(target=time.sleep, args=(60,)).start()
        ctypes.CDLL(None).pthread_exit(None)"""
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            until(lambda: ") Z " in Path(f"/proc/{process.pid}/stat").read_text())
            assert process.pid in leftovers.descendants()
        finally:
            process.kill()
    assert process.pid not in leftovers.descendants()


def test_a_killed_guard_ends_the_build(context: Context, token: str, until: Callable[..., None]) -> None:
    with context.begin(f"{DAEMONS}; sleep {{token}}".format(token=token)) as builder:
        until(lambda: _begun(builder))
        os.kill(_guard(builder), signal.SIGKILL)
        assert builder.ended() == (None, "its guard was killed")
        assert running(token) == []


# -- mounts and loop devices --

MOUNT = "mkdir m n; mount -t tmpfs none m; mount --bind / n; touch m/x"
LOOP = "truncate -s 4M disk; mkfs.ext4 -q disk; losetup --find --show disk >loop; mkdir d; mount $(cat loop) d"


@pytest.fixture
def root_site(context: Context) -> Context:
    if context.flavour != "root":
        pytest.skip("an ordinary user's build can mount nothing")
    return context


@pytest.fixture
def loop_site(root_site: Context) -> Context:
    probe = root_site.images / "probe"
    probe.write_bytes(bytes(1 << 20))
    try:
        if os.system(f"losetup --detach $(losetup --find --show {probe} 2>/dev/null) 2>/dev/null"):
            pytest.skip("this machine has no loop device to give")
    finally:
        probe.unlink()
    return root_site


def test_mounts_of_a_build_are_visible_to_that_build_only(root_site: Context, until: Callable[..., None]) -> None:
    with root_site.begin(f"{MOUNT}; touch begun; until [ -e go ]; do sleep 0.02; done") as builder:
        until(lambda: _begun(builder))
        assert leftovers.mounts(builder.work) == []
        assert list((builder.work / "n").iterdir()) == []
        (builder.work / "go").touch()
        assert builder.ended() == (0, None)


def test_mounts_outside_of_namespaces_are_taken_down_and_what_is_behind_them_stays(
    root_site: Context, tmp_path: Path
) -> None:
    (tmp_path / "keep").touch()
    work = root_site.images / "by hand.build"
    (work / "a" / "b").mkdir(parents=True)
    assert (
        os.system(f"mount --bind {tmp_path} '{work}/a' && mkdir -p {tmp_path}/b && mount -t tmpfs x '{work}/a/b'") == 0
    )
    assert len(leftovers.mounts(work)) == 2
    assert isolation.sweep(root_site.images) == []
    assert (tmp_path / "keep").exists()


@pytest.mark.parametrize("end", ["exit", "stop", "builder killed", "supervisor killed", "both killed"])
@pytest.mark.parametrize("file", ["there", "unlinked"])
def test_loop_devices_are_freed(loop_site: Context, end: str, file: str, until: Callable[..., None]) -> None:
    shown = loop_site.images / "logs" / "loop"
    script = f"set -e; {LOOP}; {'rm disk;' if file == 'unlinked' else ''} cp loop ../logs/; touch begun"
    with loop_site.begin(script if end == "exit" else f"{script}; sleep 60") as builder:
        until(lambda: shown.exists() and shown.read_text().startswith("/dev/loop"))
        if end != "exit":
            until(lambda: _begun(builder))
        name = Path(shown.read_text().strip()).name
        match end:
            case "stop":
                builder.stop(1.0)
            case "builder killed":
                builder.program.kill()
            case "supervisor killed":
                os.kill(builder.supervisor, signal.SIGKILL)
            case "both killed":
                builder.program.kill()
                os.kill(builder.supervisor, signal.SIGKILL)
                until(lambda: not leftovers.processes(builder.work), GONE_SECONDS)
                assert isolation.sweep(loop_site.images) == []
        until(lambda: not loop_site.left(), GONE_SECONDS)
        until(lambda: not _backed_by(name, builder.work), GONE_SECONDS)


def _backed_by(name: str, work: Path) -> bool:
    try:
        return f"{work.name}/" in Path("/sys/block", name, "loop/backing_file").read_text()
    except OSError:
        return False


# -- in this process --


def test_waiting_has_its_time_and_any_thread_may_ask(tmp_path: Path) -> None:
    work = tmp_path / "a.build"
    work.mkdir()
    command = Command(argv=("sh", "-c", "until [ -e go ]; do sleep 0.02; done"), env={}, cwd=work)
    process = isolation.start(command, log=tmp_path / "logs" / "a.log", work=work, timeout_seconds=60.0)
    assert process.wait(0.05) is None
    (work / "go").touch()
    assert process.wait(20.0) == isolation.Ended(0, None)
    assert process.wait(0.0) == process.wait() == isolation.Ended(0, None)
    process.stop()
    assert not work.exists()


@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.long)])
def test_builds_that_run_five_at_a_time_leave_no_descriptor(tmp_path: Path, rounds: int) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    for number in range(rounds):
        processes = []
        for part in range(5):
            work = tmp_path / f"{number}-{part}.build"
            work.mkdir()
            command = Command(argv=("true",), env={}, cwd=work)
            processes.append(isolation.start(command, log=tmp_path / "log", work=work, timeout_seconds=60.0))
        assert [process.wait() for process in processes] == [isolation.Ended(0, None)] * 5
    assert sorted(os.listdir("/proc/self/fd")) == before

"""A fork behaves as the process that Python would have started."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.forkserver import Forked, Forkserver, can_fork

PROGRAM = """
import os, sys, time
print(sys.argv[1:], __name__, os.environ.get("COLOUR"), os.getsid(0) == os.getpid(), flush=True)
if sys.argv[1] == "sleep":
    time.sleep(600)
sys.exit({"word": "a reason"}.get(sys.argv[1], 7))
"""
LAST_WORDS = """
import atexit, sys, threading, time
def say(word, seconds):
    time.sleep(seconds)
    print(word)
atexit.register(say, "an exit function", 0)
threading.Thread(target=say, args=("a thread", 0.2)).start()
sys.exit(3)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Forkserver]:
    made = Forkserver()
    yield made
    made.close()


def start(server: Forkserver, folder: Path, word: str) -> Forked:
    (folder / "program.py").write_text(PROGRAM)
    return server.start([str(folder / "program.py"), word], os.environ | {"COLOUR": "red"}, folder / "log")


def test_a_fork_has_its_arguments_environment_session_log_and_exit_status(server: Forkserver, tmp_path: Path) -> None:
    assert start(server, tmp_path, "end").wait(30) == 7
    assert (tmp_path / "log").read_text() == "['end'] __main__ red True\n"


def test_a_fork_has_the_directory_umask_and_limits_of_the_process_that_asked(
    server: Forkserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import os, resource\nprint(os.getcwd(), oct(os.umask(0)), resource.getrlimit(resource.RLIMIT_FSIZE)[0])\n"
    )
    (tmp_path / "program.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    umask = os.umask(0o027)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        assert server.start([str(tmp_path / "program.py")], os.environ, tmp_path / "log").wait(30) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        os.umask(umask)
    assert (tmp_path / "log").read_text().split() == [str(tmp_path), "0o27", str(1 << 20)]


def test_ctrl_c_in_a_terminal_reaches_the_process_that_asked_alone(server: Forkserver) -> None:
    assert os.getpgid(server._process.pid) != os.getpgid(0)


def test_an_exit_with_a_text_prints_it_and_ends_with_one(server: Forkserver, tmp_path: Path) -> None:
    assert start(server, tmp_path, "word").wait(30) == 1
    assert (tmp_path / "log").read_text().splitlines()[-1] == "a reason"


def test_a_fork_that_runs_can_be_waited_for_and_killed(server: Forkserver, tmp_path: Path) -> None:
    fork = start(server, tmp_path, "sleep")
    assert fork.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.05)
    fork.kill()
    assert fork.wait(30) == -signal.SIGKILL
    fork.kill()  # does nothing: the number may be that of another process by now


def test_a_fork_leaves_frozen_what_the_server_imported(server: Forkserver, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import gc\ngc.unfreeze()\nprint(gc.get_freeze_count() > 10_000)\n")
    assert server.start([str(tmp_path / "program.py")], os.environ, tmp_path / "log").wait(30) == 0
    assert (tmp_path / "log").read_text() == "True\n"


def test_a_fork_has_what_daemons_import_late(server: Forkserver, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nprint({'jsonschema', 'networkx'} <= set(sys.modules))\n")
    assert server.start([str(tmp_path / "program.py")], os.environ, tmp_path / "log").wait(30) == 0
    assert (tmp_path / "log").read_text() == "True\n"


def test_a_fork_ends_with_its_threads_its_exit_functions_and_its_output(server: Forkserver, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LAST_WORDS)
    assert server.start([str(tmp_path / "program.py")], os.environ, tmp_path / "log").wait(30) == 3
    assert (tmp_path / "log").read_text() == "a thread\nan exit function\n"


def test_a_module_of_a_daemon_runs_as_main(server: Forkserver, tmp_path: Path) -> None:
    fork = server.start(["-m", "nodepool_ocb_annealer.main", "--help"], os.environ, tmp_path / "log")
    assert fork.wait(30) == 0
    assert "--config" in (tmp_path / "log").read_text()


def test_variables_that_only_a_new_program_reads_need_a_new_program() -> None:
    program = ["-m", "nodepool_ocb_annealer.main"]
    assert can_fork(program, {"COLOUR": "red"})
    assert not can_fork(program, {"PYTHONPATH": "/elsewhere"})
    assert not can_fork(program, {"LD_PRELOAD": "libfaketime.so"})
    assert not can_fork(["-c", "pass"], {})

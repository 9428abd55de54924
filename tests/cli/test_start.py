"""What every command has in common: it starts quickly, and ends with the right code and no traceback."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.kit.performing import direct
from nodepool_ocb.cli.main import COLLECTIONS, NOUNS, cli
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.testing.zookeeper.server import free_port

HEAVY = ("kazoo", "networkx", "paramiko", "rich", "jsonschema", "http.client", "ssl", "jinja2", "logging", "cronsim")


def test_help_costs_little() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(
        [sys.executable, "-c", "from nodepool_ocb.cli.main import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert all(f"  {noun} " in answer.stdout for noun in NOUNS)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.4


@pytest.mark.parametrize("arguments", [["--help"], *([noun, "--help"] for noun in NOUNS)], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from nodepool_ocb.cli.main import cli\n"
        "try: cli(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == "[]"


def test_a_command_about_one_noderole_imports_neither_yaml_nor_other_verbs() -> None:
    script = (
        "import sys; from nodepool_ocb.cli.main import cli\n"
        "try: cli(['noderole', 'explain', '--help'], standalone_mode=False)\n"
        "finally: from nodepool_ocb.store import clusters\n"
        "print({'yaml', 'nodepool_ocb.cli.noderoles.log', clusters.__name__} & set(sys.modules), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == "{'nodepool_ocb.store.clusters'}"


def test_the_table_of_nouns_is_what_the_modules_say() -> None:
    with cli.make_context("nodepool-ocb", ["status"]) as ctx:
        for noun in NOUNS:
            command = cli.get_command(ctx, noun)
            assert command is not None
            assert command.help


ENDING = """
import atexit, gc, sys, threading
from nodepool_ocb.cli.main import main

class Object:
    def __del__(self):
        print("an object was freed", flush=True)

def later():
    threading.main_thread().join()
    print("a thread ended", file=sys.stderr)

kept = Object()
print(gc.get_threshold(), file=sys.stderr)
atexit.register(lambda: print(gc.get_threshold(), "an exit function", file=sys.stderr))
threading.Thread(target=later).start()
main()
"""


def test_a_command_looks_for_garbage_seldom_and_ends_without_freeing_its_objects() -> None:
    answer = subprocess.run([sys.executable, "-c", ENDING, "nope"], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    before, *_, thread, last = answer.stderr.splitlines()
    assert thread == "a thread ended"
    assert last == f"{COLLECTIONS} an exit function"
    assert before != str(COLLECTIONS)


LEAVING = "import sys; from nodepool_ocb.process import leave; print('the last words', end='', file=sys.{}); leave(3)"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_process_that_leaves_writes_its_last_words_and_raises_where_it_cannot(stream: str) -> None:
    command, env = [sys.executable, "-c", LEAVING.format(stream)], {**os.environ, "PYTHONUNBUFFERED": ""}
    answer = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (answer.returncode, getattr(answer, stream)) == (3, "the last words")
    with open("/dev/full", "w") as full:
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env, check=False)
    assert (answer.returncode == 3) is (stream == "stderr")


def test_no_zookeeper_is_told_in_one_line_within_ten_seconds() -> None:
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-c", "from nodepool_ocb.cli.main import main; main()", "node", "list"],
        env={**os.environ, "NODEPOOL_OCB_ZOOKEEPER": f"127.0.0.1:{free_port()}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 7
    assert time.monotonic() - started < 10.0
    assert len(answer.stderr.splitlines()) == 1, answer.stderr
    assert answer.stdout == ""


def test_a_refused_connection_ends_a_command_long_before_its_patience_does() -> None:
    started = time.monotonic()
    with (
        cli.make_context("nodepool-ocb", ["--zookeeper", f"127.0.0.1:{free_port()}", "status"]) as ctx,
        pytest.raises(Unavailable, match="connection refused"),
        direct(ctx).session(timeout_seconds=120.0),
    ):
        pass
    assert time.monotonic() - started < 60.0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    answer = CliRunner().invoke(cli, ["completion", shell], prog_name="nodepool-ocb")
    assert answer.exit_code == 0
    assert "_NODEPOOL_OCB_COMPLETE" in answer.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nodrole list", "did you mean `noderole`?"),
        ("node lst", "did you mean `list`?"),
        ("node list --nope", "--nope"),
        ("node list -o xml", "xml"),
        ("noderole retry", "--failed"),
        ("node create n1.example.com --address a --no-address", "contradict"),
    ],
)
def test_wrong_usage_ends_with_2(line: str, said: str) -> None:
    answer = CliRunner().invoke(cli, line.split(), prog_name="nodepool-ocb")
    assert answer.exit_code == 2
    assert said in answer.stderr


@pytest.mark.parametrize("program", ["nodepool-ocb", "nodepool-ocb-annealer", "nodepool-ocb-api"])
def test_an_interrupt_while_modules_load_prints_no_traceback(program: str, tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise KeyboardInterrupt\n")  # as at Ctrl-C while it loads
    script = Path(sys.executable).parent / program
    ended = subprocess.run([script, "--help"], capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")

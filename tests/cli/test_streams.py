"""The standard streams of commands: other encodings, a full disk, a reader that leaves, and no standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

import pytest
import yaml

MAIN: Final = "import sys; from nodepool_ocb.cli.main import main; sys.argv = ['nodepool-ocb', *sys.argv[1:]]; main()"
PRINTS: Final = """
from nodepool_ocb.cli.kit import terminal
from nodepool_ocb.cli.printing import streams
streams.prepare()
terminal.{call}
"""


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-8", "cp1252", "ascii"])
def test_every_text_is_printed_in_every_encoding(encoding: str) -> None:
    def printed(call: str) -> bytes:
        env = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run([sys.executable, "-c", PRINTS.format(call=call)], capture_output=True, env=env)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    words = printed("text('waits for: a ← b, ü, 😀')").decode("utf-8" if encoding == "ascii" else encoding)
    assert words in ("waits for: a ← b, ü, 😀\n", "waits for: a <- b, ü, \\U0001f600\n")
    value = {"a": "← ü 😀"}
    assert json.loads(printed(f"document({value!r})")) == value
    assert yaml.safe_load(printed(f"yaml_document({value!r})")) == value


def run(*words: str, output: str) -> tuple[int, str]:
    """The exit code of a command with this redirection of a shell, and the words on standard error."""
    script = f'"$0" -c "$1" "${{@:2}}" {output}'
    done = subprocess.run(["bash", "-c", script, sys.executable, MAIN, *words], capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [("completion", "bash"), ("--help",), ("config", "check", "--offline")])
def test_output_that_cannot_be_written_is_one_sentence(words: tuple[str, ...]) -> None:
    code, said = run(*words, output=">/dev/full")
    assert code == 1
    assert said.endswith(
        "error: cannot write the output: No space left on device; send it to another file or terminal\n"
    )
    assert not {"unexpected", "Exception ignored", "Traceback"} & {*said.split()}


def test_a_closed_standard_output_is_one_sentence_before_anything_is_done() -> None:
    assert run("config", "check", "--offline", output=">&-") == (
        1,
        "error: cannot write the output: standard output is closed; send it to another file or terminal\n",
    )


@pytest.mark.parametrize("words", [("completion", "bash"), ("--version",)])
def test_a_reader_that_has_left_ends_the_command_as_in_a_shell(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", MAIN, *words], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_without_standard_error_a_command_ends_with_its_code() -> None:
    assert run("--version", output=">/dev/null 2>&-") == (0, "")

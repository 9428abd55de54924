"""Files that are none, that never end, or that are hostile within: no reader of files hangs, runs code, or ends unexpectedly.

A case is a way to make a file, and a command that reads it. Each command ends by itself, with a sentence and no traceback; the
default form reads a sample, of the same seed each time, the long form all.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from nodepool_ocb.catalogue import scripts
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import SshSettings
from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid
from nodepool_ocb.jigs.ssh.keys import NoKey, load_keys
from tests.journeys.hostile import spoiling

SEED: Final = 20
SAMPLE: Final = 30
MARK: Final = "code-ran"  # nothing makes a file of this name

Make = Callable[[Path], object]


def _text(text: str | bytes) -> Make:
    return lambda path: path.write_bytes(text if isinstance(text, bytes) else text.encode())


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


#: What stands where a file is to be.
IRREGULAR: Final[dict[str, Make]] = {
    "a FIFO": os.mkfifo,
    "a link to a FIFO": lambda path: (os.mkfifo(f"{path}.fifo"), path.symlink_to(f"{path}.fifo")),
    "a directory": Path.mkdir,
    "a socket": _socket,
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a device that waits": lambda path: path.symlink_to("/dev/tty"),
    "an empty device": lambda path: path.symlink_to("/dev/null"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("/nowhere/at/all"),
}

#: Nine to the ninth letters, for whoever walks it.
BOMB: Final = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{above}: &{above} [{','.join([f'*{below}'] * 9)}]\n"
    for below, above in zip("abcdefghi", "bcdefghij", strict=True)
)

#: What a file holds.
WITHIN: Final[dict[str, Make]] = {
    "nothing": _text(""),
    "blanks": _text(" \n" * 1000),
    "two mebibytes": _text("a" * (2 << 20)),
    "a hole of a tebibyte": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "zero bytes": _text(b"\0" * 1000),
    "no UTF-8": _text(b"\xff\xfe\x00a"),
    "a mark alone": _text(b"\xef\xbb\xbf"),
    "control characters": _text("a: \x1b[2J\x1b]0;owned\x07"),
    "keys that act": _text('"\\e[2J\\e]0;owned\\a": 1'),
    "other letters": _text("naïve: ‮txt"),
    "a list": _text("[1, 2]"),
    "a number": _text("5"),
    "a text": _text("just text"),
    "tabs": _text("a:\n\tb: 1"),
    "an open quote": _text('a: "b'),
    "an open brace": _text("{" * 5000),
    "open brackets": _text("[" * 100_000),
    "deep blocks": _text("".join(" " * depth + "a:\n" for depth in range(300))),
    "python objects": _text(f"!!python/object/apply:os.system ['touch {MARK}']"),
    "python names": _text(f"a: !!python/name:os.system\nb: !!python/object/new:os.system ['touch {MARK}']"),
    "a tag of its own": _text("a: !secret b"),
    "a template": _text("a: \"{{ ''.__class__.__mro__ }}\"\nb: '$(touch " + MARK + ")'"),
    "an alias bomb": _text(BOMB),
    "an alias of itself": _text("a: &a [*a]"),
    "many aliases": _text("a: &a 1\nb: [" + "*a," * 5000 + "]"),
    "merge keys": _text("a: &a {x: 1}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(3000))),
    "doubled keys": _text("a: 1\na: 2"),
    "keys of other kinds": _text("1: a\n[2]: b\n? {c: d}\n: e"),
    "many documents": _text("---\n" * 5000),
    "a large number": _text("a: " + "9" * 5000),
    "no numbers": _text("a: .nan\nb: .inf\nc: 1e999"),
    "many lines": _text("a: 1\n" * 100_000),
    "a long line": _text("a: '" + "x" * 900_000 + "'"),
}  # fmt: skip

ROLE: Final = "barclamp: {name: b}\nroles:\n  - %s\n"
FIELDS: Final = (
    *("name", "jig", "flags", "requires", "conflicts"),
    *("retries", "timeout_seconds", "backoff_seconds", "script", "attribs"),
)
#: What a barclamp's role says.
ROLES: Final[dict[str, Make]] = {
    f"role {field}: {name}": _text(ROLE % ("{name: r, jig: noop, " + f"{field}: {value}" + "}"))
    for field in FIELDS
    for name, value in spoiling.VALUES.items()
}

COMMANDS: Final = (
    "barclamp check {}",
    "strategy check {}",
    "config check --offline --nodepool {}",
    "--config {} status",
)


def cases() -> list[tuple[str, Make, str]]:
    """Name, how the file is made, and the command that reads it."""
    everywhere = [(name, make, command) for name, make in (IRREGULAR | WITHIN).items() for command in COMMANDS]
    return everywhere + [(name, make, COMMANDS[0]) for name, make in ROLES.items()]


def test_there_are_three_hundred_cases_and_more() -> None:
    assert len(cases()) >= 300


def read_each(folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: list[tuple[str, Make, str]]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("NODEPOOL_OCB_ZOOKEEPER", "127.0.0.1:1")  # nobody is there
    before = len(os.listdir("/proc/self/fd"))
    for number, (name, make, command) in enumerate(chosen):
        path = folder / f"{number}.yaml"
        make(path)
        result = CliRunner().invoke(cli, command.format(path).split(), catch_exceptions=True)
        said = f"{name}, {command}: exit code {result.exit_code}\n{result.output[:2000]}\n{result.exception!r}"
        assert result.exit_code in (0, 1, 2, 3, 7), said
        assert "unexpected error" not in result.output, said
        assert "Traceback" not in result.output, said
        assert not any(letter in result.output for letter in "\x1b\x07\u202e"), said
        assert not Path(MARK).exists(), said
    assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.long
def test_no_command_hangs_or_breaks_at_a_hostile_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(SEED)
    every = cases()
    certain = [each for each in every if each[0] in IRREGULAR and each[2] in (COMMANDS[0], COMMANDS[2])]
    read_each(tmp_path, monkeypatch, certain + chance.sample(every, SAMPLE))


@pytest.mark.long
def test_no_command_hangs_or_breaks_at_any_hostile_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_each(tmp_path, monkeypatch, cases())


@pytest.fixture(params=sorted(IRREGULAR))
def irregular(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file.sh"
    IRREGULAR[request.param](path)
    return path


def test_only_regular_files_are_read(irregular: Path) -> None:
    with pytest.raises(OSError, match=r".") as refused:
        files.read(irregular, 100)
    assert refused.value.strerror


def test_only_regular_files_are_keys(irregular: Path) -> None:
    with pytest.raises(NoKey):
        load_keys(SshSettings(key_files=(str(irregular),)))


def test_only_regular_files_are_scripts(irregular: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        scripts.find(irregular.parent, "role", irregular.name)


def test_a_file_is_read_to_its_bound_and_one_byte_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert len(files.read(path, 10)) == 11
    assert len(files.read(path, 200)) == 100


def test_a_name_of_a_role_that_ends_with_a_line_break_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.yml"
    path.write_text('barclamp: {name: b}\nroles:\n  - {name: "role\\n", jig: noop}\n')
    result = CliRunner().invoke(cli, ["barclamp", "check", str(path)])
    assert result.exit_code == 1
    assert "must be a name" in result.stderr

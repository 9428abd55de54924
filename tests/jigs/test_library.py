"""The shell library of scripts, on a real machine: what it writes, and when it leaves a file alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb import jigs
from nodepool_ocb.jigs import Succeeded

LIBRARY = Path(jigs.__file__).parent / "ssh" / "library.sh"
Act = Callable[..., str]


@pytest.fixture
def act(machine: Any, annealer: Any, tmp_path: Path) -> Act:
    """Run a script that has the library, in a folder of its own; gives what it said: ``act(script, a={...})``."""
    generations = count(1)

    def run(script: str, root: str = "/other", **attributes: Any) -> str:
        text = f'set -eu\nOCB_ROOT={root}\n. "$OCB_LIBRARY"\ncd {tmp_path}\n{script}'
        number = next(generations)
        outcome = annealer.run(machine.order(text, attributes=attributes, generation=number, epoch=number))
        assert isinstance(outcome, Succeeded), outcome
        return outcome.tail

    return run


def test_a_file_is_written_whole_and_left_alone_where_it_says_so_already(act: Act, tmp_path: Path) -> None:
    file = tmp_path / "a" / "b"
    assert act(f"echo one | put {file} 600") == f"wrote {file}\n"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("one\n", 0o600)
    before = file.stat()
    assert act(f"echo one | put {file} 600") == ""
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert act(f"echo two | put {file}") == f"wrote {file}\n"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("two\n", 0o644)
    assert [each.name for each in file.parent.iterdir()] == ["b"]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(act: Act, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old\n")
    said = act(f"cat() {{ echo half; return 1; }}\necho new | put {file} || echo refused")
    assert said == "refused\n"
    assert file.read_text() == "old\n"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("file")] == ["file"]


def test_a_service_takes_a_file_over_where_it_changed_on_the_machine_itself(act: Act, tmp_path: Path) -> None:
    file = tmp_path / "conf"
    script = f'systemctl() {{ echo "systemctl $*"; }}\necho one | put_for time.service {file}'
    assert act(script, root="/other") == f"wrote {file}\n"
    assert act(script, root="/") == ""
    file.unlink()
    assert act(script, root="/") == f"wrote {file}\nsystemctl try-restart time.service\n"
    file.unlink()
    assert act(f"{script} reload", root="/") == f"wrote {file}\nsystemctl reload time.service\n"


def test_a_service_that_did_not_reload_is_reloaded_at_the_next_run(act: Act, tmp_path: Path) -> None:
    file, owed = tmp_path / "conf", Path(f"/run/nodepool-ocb/owed{tmp_path}/conf")
    down, up = (
        f'systemctl() {{ [ "$1" != is-failed ] || return {1 - code}; echo "systemctl $*"; return {code}; }}\n'
        for code in (1, 0)
    )
    script = f"echo one | put_for time.service {file} || echo failed"
    restarted = "systemctl try-restart time.service\n"
    yet = f"time.service has yet to take {file} over\n"
    try:
        assert act(down + script, root="/") == f"wrote {file}\n{restarted}failed\n"
        assert owed.exists()
        assert act(down + script, root="/") == f"{yet}systemctl restart time.service\nfailed\n"
        assert act(up + script, root="/") == yet + restarted
        assert act(up + script, root="/") == ""
        assert not owed.parent.exists()
    finally:
        owed.unlink(missing_ok=True)


def test_a_run_that_is_cut_off_once_its_file_has_changed_owes_the_restart(act: Act, tmp_path: Path) -> None:
    file, owed = tmp_path / "conf", Path(f"/run/nodepool-ocb/owed{tmp_path}/conf")
    systemctl = 'systemctl() { [ "$1" != is-failed ] || return 1; echo "systemctl $*"; }\n'
    script = f"{systemctl}echo one | put_for time.service {file} try-reload-or-restart"
    try:
        assert act(f'mv() {{ command mv "$@"; exit 1; }}\n{script} || echo cut', root="/") == "cut\n"
        assert (file.read_text(), owed.exists()) == ("one\n", True)
        assert act(script, root="/").endswith("\nsystemctl try-reload-or-restart time.service\n")
        assert not owed.exists()
    finally:
        owed.unlink(missing_ok=True)


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox ash"])
def test_in_any_shell_a_failed_restart_and_a_failed_read_fail_the_script(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"{shell} is not installed")
    file, owed = tmp_path / "conf", Path(f"/run/nodepool-ocb/owed{tmp_path}/conf")
    command = tmp_path / "bin" / "read_attribute"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\n[ "$1" != gone ] && [ "${2-}" != gone ] && echo\n')
    command.chmod(0o755)
    head = f"set -eu\nOCB_ROOT=/ PATH={command.parent}:$PATH\n. {LIBRARY}\n"
    systemctl = 'systemctl() { [ "$1" != is-failed ] && [ -e up ]; }\n'
    environment = os.environ | {"OCB_RUN": str(tmp_path / "run"), "OCB_LIBRARY": str(LIBRARY)}

    def code(script: str) -> int:
        words = [*shell.split(), "-c", head + systemctl + script]
        return subprocess.run(words, cwd=tmp_path, env=environment, check=False).returncode

    try:
        restart = f"echo one | put_for a.service {file}; true"
        assert (code(restart), code(restart)) == (1, 1)
        (tmp_path / "up").touch()
        assert (code(restart), owed.exists()) == (0, False)
        read = f'text=$(read_attribute %s); lines "$text" | put {file}'
        assert (code(read % "gone"), file.read_text()) == (1, "one\n")
        for fed in ("read_attribute gone", "items gone", "{ read_attribute empty; read_attribute gone; }"):
            assert (code(f"{fed} | put {file}; true"), file.read_text()) == (1, "one\n")
        handled = f"{{ read_attribute gone || items gone || echo two; }} | put {file}"
        assert (code(handled), file.read_text()) == (0, "two\n")
        assert (code(read % "empty"), file.read_text()) == (0, "")
    finally:
        owed.unlink(missing_ok=True)


def test_the_values_of_lists_and_maps_come_one_a_line(act: Act) -> None:
    assert act("items a", a=["x", "two words", "*"]) == "x\ntwo words\n*\n"
    assert act("items a/b", a={"b": {"k": "1", "two words": "2", "*": "3", "s/l": "4"}}) == "1\n2\n3\n4\n"
    assert act("items a; items b/c; echo end", a=[]) == "end\n"


def test_scalars_have_no_items(act: Act) -> None:
    assert act("items a || echo refused", a="text") == "read_attribute: a is not a map or a list\nrefused\n"
    assert act("items a 2>/dev/null || echo refused", a=[["deep"], "x"]) == "refused\n"


def test_texts_become_lines_and_an_empty_one_none(act: Act) -> None:
    assert act("lines '' 'a  b' '' '*'; lines ''; lines '-n'", a=[]) == "a  b\n*\n-n\n"


def test_a_script_is_below_the_root_that_its_attribute_says(act: Act) -> None:
    assert act('echo "<$root>"', root='""', ocb={"root": "/tmp/try/"}) == "</tmp/try>\n"
    assert act('echo "<$root>"', root='""') == "<>\n"
    assert act('echo "<$root>"', root="/") == "<>\n"

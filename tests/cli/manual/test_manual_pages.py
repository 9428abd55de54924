"""Manual pages: one for each command and daemon, as `man`, mandoc and groff want them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.cli.manual.pages import pages
from tests.cli.shells.walking import commands

EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages were written."""
    folder = tmp_path_factory.mktemp("man") / "man1"
    answer = CliRunner().invoke(cli, ["man", str(folder)], prog_name="nodepool-ocb", env=EPOCH)
    assert answer.exit_code == 0, answer.output
    return folder


def _said(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr


def test_every_command_and_every_daemon_has_a_page(written: Path) -> None:
    expected = {context.command_path.replace(" ", "-") for context in commands()}
    assert {"nodepool-ocb", "nodepool-ocb-node-bind", "nodepool-ocb-lease-run", "nodepool-ocb-pool-erase"} <= expected
    daemons = {"nodepool-ocb-annealer", "nodepool-ocb-api", "nodepool-ocb-builder", "nodepool-ocb-launcher"}
    assert {page.stem for page in written.iterdir()} == expected | daemons


def test_mandoc_finds_nothing_to_complain_of(written: Path) -> None:
    assert _said("mandoc", "-T", "lint", "-W", "style", *map(str, sorted(written.iterdir()))) == ""


def test_groff_warns_of_nothing(written: Path) -> None:
    assert _said("groff", "-man", "-Tutf8", "-ww", "-z", *map(str, sorted(written.iterdir()))) == ""


def test_man_finds_a_page_and_shows_its_options_and_variables(written: Path) -> None:
    found = _said("man", "-M", str(written.parent), "-w", "nodepool-ocb-node-bind").strip()
    assert found == str(written / "nodepool-ocb-node-bind.1")
    shown = _said("man", "--warnings", "-P", "cat", "-l", found)
    for word in ("--dry-run", "NODEPOOL_OCB_NODE_BIND_DRY_RUN", "nodepool-ocb-node(1)"):
        assert word in shown


def test_no_text_of_a_command_is_taken_for_a_request() -> None:
    @click.command(help="First.\n\n.SH FORGED\n\n'br and a \\fB backslash")
    @click.option("--odd", help=".so /etc/passwd")
    def odd() -> None: ...

    (page,) = pages(odd, "odd", "1", "2026-01-01")
    requests = [line.split()[0] for line in page.text.splitlines() if line.startswith((".", "'"))]
    assert set(requests) <= {".TH", ".SH", ".B", ".PP", ".TP"}
    assert "FORGED" not in {line.partition(" ")[2] for line in page.text.splitlines() if line.startswith(".SH")}
    assert "\\efB" in page.text


def _texts(folder: Path) -> Iterator[str]:
    return (page.read_text() for page in sorted(folder.iterdir()))


def test_the_same_pages_are_made_again(written: Path, tmp_path: Path) -> None:
    CliRunner().invoke(cli, ["man", str(tmp_path / "again")], prog_name="nodepool-ocb", env=EPOCH)
    assert list(_texts(written)) == list(_texts(tmp_path / "again"))

"""The help of each command ends with an example, and click takes each example as it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.kit.examples import EXAMPLES, example
from nodepool_ocb.cli.main import cli
from tests.operations.test_table_of_operations import COMMANDS

FILES = ("ntp.yaml", "site.yaml", "strategy.yaml", "tasks.yaml", "machines.csv", "builds.json")


def test_every_command_has_an_example() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("title", EXAMPLES)
def test_click_takes_the_example(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        (tmp_path / name).touch()
    (tmp_path / "tasks").mkdir()
    line = example("nodepool-ocb", title)
    assert line is not None
    _, *words = shlex.split(line)
    context = click.Context(cli, info_name="nodepool-ocb")
    for word in title.split():
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, word)
        assert command is not None
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=word, parent=context)
    assert command.make_context(word, words[len(title.split()) :], parent=context).command is command


@pytest.mark.parametrize("title", ["node show", "apply"])
def test_the_help_ends_with_the_example(title: str) -> None:
    shown = CliRunner().invoke(cli, [*title.split(), "--help"], prog_name="nodepool-ocb").output
    assert shown.endswith(f"\nExample:\n  {example('nodepool-ocb', title)}\n")

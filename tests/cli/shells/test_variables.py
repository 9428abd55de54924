"""Options from the environment: each under the name that docs/commands.md says, and the line counts more."""

from __future__ import annotations

import click
import pytest
from click.core import ParameterSource

from nodepool_ocb.cli.kit.options import variable
from nodepool_ocb.cli.main import cli
from tests.cli.shells.walking import commands


def _sample(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return str(option.type.choices[0])
    return "/" if isinstance(option.type, click.Path) else "1"


def _documented(context: click.Context, option: click.Option) -> str:
    """As docs/commands.md has it."""
    name = max(option.opts, key=len).removeprefix("--")
    return f"{context.command_path} {name}".upper().replace(" ", "_").replace("-", "_")


def test_every_option_of_every_command_has_the_variable_that_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    for context in commands():
        options = [each for each in context.command.params if isinstance(each, click.Option) and not each.is_eager]
        if not options or isinstance(context.command, click.Group):
            continue
        names = {option: _documented(context, option) for option in options}
        assert {option: variable(context, option) for option in options} == names
        with monkeypatch.context() as patched:
            for option, name in names.items():
                patched.setenv(name, _sample(option))
            made = context.command.make_context(context.info_name, [], parent=context.parent, resilient_parsing=True)
        for option in options:
            assert made.get_parameter_source(str(option.name)) is ParameterSource.ENVIRONMENT, names[option]
            seen += 1
    assert seen > 300


def _create(line: str) -> click.Context:
    root = cli.make_context("nodepool-ocb", ["node"], resilient_parsing=True)
    node = cli.get_command(root, "node")
    assert isinstance(node, click.Group)
    context = node.make_context("node", ["create"], parent=root, resilient_parsing=True)
    create = node.get_command(context, "create")
    assert create is not None
    return create.make_context("create", line.split(), parent=context)


def test_several_values_are_divided_by_blanks_a_flag_is_a_word_and_the_line_counts_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_NODE_CREATE_TAG", "web edge")
    monkeypatch.setenv("NODEPOOL_OCB_NODE_CREATE_VIRTUAL", "yes")
    monkeypatch.setenv("NODEPOOL_OCB_NODE_CREATE_RACK", "")
    monkeypatch.setenv("NODEPOOL_OCB_NODE_CREATE_FQDN", "n2.example.com")
    given = _create("n1.example.com").params
    assert (given["fqdn"], given["tags"], given["virtual"], given["rack"]) == (
        "n1.example.com",
        ("web", "edge"),
        True,
        None,
    )
    assert _create("n1.example.com --tag db").params["tags"] == ("db",)
    with pytest.raises(click.MissingParameter):
        _create("")


def test_what_is_common_is_taken_from_one_variable_and_from_the_verbs_own_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NODEPOOL_OCB_OUTPUT", "yaml")
    assert _create("n1.example.com").meta["nodepool_ocb.cli.output"] == "yaml"
    monkeypatch.setenv("NODEPOOL_OCB_NODE_CREATE_OUTPUT", "json")
    assert _create("n1.example.com").meta["nodepool_ocb.cli.output"] == "json"

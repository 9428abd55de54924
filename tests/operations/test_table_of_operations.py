"""Every command of the command line names its operation, or is local. `setup.cfg` has the contract of its imports."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pytest

from nodepool_ocb.cli.kit.options import Verb
from nodepool_ocb.cli.kit.walking import verbs
from nodepool_ocb.cli.main import cli
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.operation import Lookup, Operation, Right

PAGE: Final = Path(__file__).parents[2] / "docs/operations-table.md"
COMMANDS: Final = dict(verbs(click.Context(cli)))
OPERATIONS: Final = registry.every()


def operations_of(command: click.Command) -> tuple[type[Operation[Any]], ...]:
    return command.operations if isinstance(command, Verb) else ()


def test_every_command_names_its_operation_or_is_local() -> None:
    lacking = {name for name, command in COMMANDS.items() if not operations_of(command)}
    local = {name for name, command in COMMANDS.items() if isinstance(command, Verb) and command.local}
    assert lacking == local


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_its_operations_have_one_title(name: str) -> None:
    assert {each.title() for each in operations_of(COMMANDS[name])} <= {name}


def test_every_operation_is_the_operation_of_a_command() -> None:
    assert {*OPERATIONS} == {each for command in COMMANDS.values() for each in operations_of(command)}


def test_the_page_of_operations_has_every_command_and_names_no_record_twice() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert {row[0].strip("`") for row in rows} == {*COMMANDS}
    twice = {row[0] for row in rows for cell in row[5:7] if len(cell.split(", ")) > len({*cell.split(", ")})}
    assert not twice


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_is_named_after_its_noun_and_verb(operation: type[Operation[Any]]) -> None:
    words = operation.title().replace("-", " ").replace("noderole", "node-role").split()
    assert operation.__name__.lower().startswith("".join(words).replace("-", ""))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_declares_its_right_and_a_viewer_writes_nothing(operation: type[Operation[Any]]) -> None:
    assert isinstance(operation.right, Right)
    assert (operation.right is Right.VIEWER) == (not operation.writes)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_is_a_value_with_named_fields_and_defaults_of_their_types(operation: type[Operation[Any]]) -> None:
    assert operation.__struct_config__.frozen
    assert {each.kind for each in inspect.signature(operation).parameters.values()} <= {inspect.Parameter.KEYWORD_ONLY}
    defaults = {each.name: each for each in msgspec.structs.fields(operation) if each.default is not msgspec.NODEFAULT}
    for name, field in defaults.items():
        assert msgspec.convert(field.default, type=field.type) == field.default, name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_an_operation_declares_lookups_and_kinds_of_records(operation: type[Operation[Any]]) -> None:
    assert all(issubclass(each, Lookup) for each in operation.reads)
    assert all(isinstance(each, str) for each in operation.writes)


def test_every_operation_has_a_name_of_its_own_and_the_tables_name_operations_alone() -> None:
    names = [registry.name_of(each) for each in OPERATIONS]
    assert len(names) == len({*names})
    assert {*registry.FORMS, *registry.LOCAL} <= {each.__name__ for each in OPERATIONS}


def test_a_server_of_the_api_performs_every_operation_that_is_not_local() -> None:
    performed = {each.__name__ for each in registry.remote().values()}
    assert performed == {each.__name__ for each in OPERATIONS} - {*registry.LOCAL}

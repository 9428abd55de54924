"""The table of the page's actions against the operations and the command line: no browser."""

from __future__ import annotations

import re
from typing import Any, Final

import click
import msgspec
import pytest

from nodepool_ocb.api.calls import OPERATIONS
from nodepool_ocb.api.page import files
from nodepool_ocb.cli.main import cli

TEXT: Final = files.all_files()["actions.js"].content.decode()
ROW: Final = re.compile(r'^  (\w+): \{ label: "([^"]+)", operation: "([^"]+)"(.*) \},$', re.MULTILINE)
#: The actions of an incident that each page of a system for operators must have.
WANTED: Final = {
    "noderole/retry", "noderole/refresh", "node/hold", "node/release", "pause", "resume", "deployment/pause",
    "deployment/resume", "daemon/pause", "daemon/resume", "noderole/commit", "deployment/commit", "rollout/promote",
    "rollout/resume", "rollout/accept", "rollout/cancel", "noderole/cancel", "tasks/stop", "image/build", "lease/return",
    "lease/hold", "lease/release", "lease/delete", "node/adopt", "registration/delete",
    "registration/refuse",
}  # fmt: skip


class Action(msgspec.Struct, frozen=True):
    """A row of the table."""

    name: str
    operation: str
    fields: tuple[str, ...]
    options: tuple[str, ...]  # of these fields: those that the command line has as options
    own_reason: bool
    comment: bool


def actions() -> list[Action]:
    found = []
    for name, _, operation, rest in ROW.findall(TEXT):
        lists = {key: tuple(re.findall(r'"(\w+)"', text)) for key, text in re.findall(r"(\w+): \[([^\]]*)\]", rest)}
        named = tuple(re.findall(r'(?:many|one): "(\w+)"', rest))
        options = lists.get("options", ())
        found.append(
            Action(
                name,
                operation,
                (*named, *lists.get("first", ()), *options),
                options,
                own_reason='reason: "field"' in rest,
                comment='reason: "comment"' in rest,
            )
        )
    return found


def test_every_action_of_an_incident_is_there() -> None:
    assert {each.operation for each in actions()} >= WANTED
    assert len(actions()) == TEXT.count("operation: ")


@pytest.mark.parametrize("action", actions(), ids=lambda each: str(each.name))
def test_an_action_is_an_operation_and_a_command_with_its_fields_and_a_reason(action: Action) -> None:
    kind = OPERATIONS[action.operation]
    assert kind.writes
    assert {*action.fields} <= {*kind.__struct_fields__}
    assert action.own_reason == ("reason" in kind.__struct_fields__)
    assert action.comment == ("comment" in kind.__struct_fields__)
    required = {each.name for each in msgspec.structs.fields(kind) if each.required}
    assert required <= {*action.fields, "reason"}
    command: Any = cli
    for word in action.operation.split("/"):
        command = command.get_command(click.Context(command), word)
        assert command is not None, word
    known = {option for parameter in command.params for option in parameter.opts}
    assert {"--reason", "--dry-run"} <= known
    assert {f"--{each}" for each in (*action.options, *(["comment"] if action.comment else []))} <= known

"""A state is written by the tables of states alone: tools/states.py finds every other way, and the product has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HEAD = """
from functools import partial
import msgspec
from msgspec.structs import force_setattr, replace
from nodepool_ocb.engine.run import RunState
from nodepool_ocb.model import images, records
from nodepool_ocb.model.images import Build, Upload as Sent
from nodepool_ocb.tasks.runs.records import TaskRun
"""


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tool; it is no part of any package."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import states

    yield states
    del sys.modules["states"]


@pytest.mark.parametrize(
    "line",
    [
        "replace(record, state=BuildState.READY)",
        "replace(record, state=state)",
        "msgspec.structs.replace(record, state=state)",
        "copy.replace(record, state=state)",
        "record.__replace__(state=state)",
        "record.amended(state=state)",
        "record.amended(**{name: state})",
        "records.NodeRole.of(since=now)",
        "partial(replace, state=state)",
        "partial(replace, phase=Phase.OVER)",
        "partial(Build, filename=name)",
        "headed(record, state=state)",
        "type(record)(state=state)",
        "dict(record, state=state)",
        "Build(state=state)",
        "Build(**fields)",
        "Build()",
        "Sent(state=state)",
        "images.Build(state_time=now)",
        "records.NodeRole()",
        "TaskRun(virtual=name)",
        'replace(record, **{"state": state})',
        'msgspec.convert({"state": state}, Build)',
        'fields = {"state": state}',
        'fields |= {"reason": None, "state": state}',
        'fields["state"] = state',
        'fields.setdefault("state", state)',
        "fields.update(state=state)",
        "record.state = state",
        "record.state: BuildState = state",
        "other.record.state, reason = state, None",
        "del record.state",
        'setattr(record, "state", state)',
        "setattr(record, name, state)",
        'force_setattr(record, "state", state)',
        'object.__setattr__(record, "state", state)',
        "replace(record, **{name: getattr(fresh, name) for name in NAMES})",
        "replace(record, **{name: state})",
        "replace(record, **dict(pairs))",
        "replace(run, phase=Phase.OVER)",
        "RunState(phase=Phase.OVER)",
    ],
)
def test_each_way_to_write_a_state_is_found(states: Any, line: str) -> None:
    assert states.found(HEAD) == []
    (fault, *_) = states.found(HEAD + line)
    assert fault.line == HEAD.count("\n") + 1
    (fault, *_) = states.found(f"{HEAD}\nclass A:\n    def f(self) -> None:\n        {line}")
    assert fault.function == "A.f"
    assert states.found(f"{HEAD}\ndef after() -> None:\n    {line}", frozenset({"after"})) == []
    assert states.found(f"{HEAD}\ndef other() -> None:\n    {line}", frozenset({"after"}))


def test_a_mapping_with_computed_keys_is_found_where_it_is_made_before(states: Any) -> None:
    for made in ("fields = {name: value for name in NAMES}", "fields = {}\n    fields[name] = value"):
        (fault,) = states.found(f"{HEAD}\ndef f() -> None:\n    {made}\n    replace(record, **fields)")
        assert fault.form == "replace(**...)"


@pytest.mark.parametrize(
    "line",
    [
        "Row(state=record.state)",
        "shown.BuildRow(state=state)",
        "if record.state is state: pass",
        "state = BuildState.READY",
        "replace(record, reason=None)",
        'replace(record, **{"reason": None})',
        "Action(phase=0)",
        "RunState(takeover=True)",
        'getattr(record, "state")',
        'columns = ("image", "state")',
        'value = fields["state"]',
        'force_setattr(record, "parents", names)',
        "self.state = state",
        "build_after(record, event, now, reason=None)",
    ],
)
def test_a_state_that_is_shown_or_compared_is_no_fault(states: Any, line: str) -> None:
    assert states.found(HEAD + line) == []


def test_an_event_of_the_tables_cannot_be_given_a_state() -> None:
    from nodepool_ocb.tasks.runs.records import TaskRun, TaskRunState
    from nodepool_ocb.tasks.runs.states import TaskRunEvent, task_run_after

    head = TaskRun(state=TaskRunState.COMMITTING, virtual="v")
    fields: dict[str, Any] = dict.fromkeys(["state"], TaskRunState.FAILED)
    with pytest.raises(TypeError, match="multiple values"):
        task_run_after(head, TaskRunEvent.COMMIT, **fields)


@pytest.mark.long  # tools/check makes the same check of the whole tree
def test_only_the_tables_write_states(states: Any) -> None:
    assert list(states.faults(ROOT)) == []


def test_a_fault_is_named_with_its_place_and_an_exemption_without_a_fault_is_one(states: Any, tmp_path: Path) -> None:
    file = tmp_path / "nodepool_ocb/a.py"
    file.parent.mkdir()
    file.write_text("def f(record):\n    return replace(record, state=1)\n")
    (fault,) = states.faults(tmp_path, {}, {})
    assert fault.startswith("nodepool_ocb/a.py:2: replace(state=...) in f writes a state; apply an event")
    assert list(states.faults(tmp_path, {}, {("nodepool_ocb/a.py", "f"): "why"})) == []
    (_, unused) = states.faults(tmp_path, {}, {("nodepool_ocb/a.py", "g"): "why"})
    assert "nodepool_ocb/a.py g is exempt" in unused


def test_every_function_that_applies_a_table_is_there(states: Any) -> None:
    import ast

    for name, functions in states.TABLES.items():
        there = {each.name for each in ast.parse((ROOT / name).read_text()).body if isinstance(each, ast.FunctionDef)}
        assert functions <= there, name


def test_the_records_are_frozen(states: Any) -> None:
    from importlib import import_module

    for module, names in states.RECORDS.items():
        for name in names:
            assert getattr(import_module(module), name).__struct_config__.frozen, name

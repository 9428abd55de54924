"""Every condition of the released task lists parses, and is worth something on settings that have what it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodepool_ocb.tasks.conditions import Models, evaluate, parse
from nodepool_ocb.tasks.tasklist import Expression, Language
from tests.fixtures.corpora import CORPORA, needs

#: release → how many conditions of each language it has
RELEASES = {"7.0": {Language.SETTINGS: 22, Language.YAQL: 0}, "9.0": {Language.SETTINGS: 45, Language.YAQL: 3}}


def expressions(release: str) -> Iterator[Expression]:
    for file in sorted((CORPORA / "fuel" / release).rglob("*.yaml")):
        for task in documents(file):
            condition = task.get("condition")
            if isinstance(condition, str):
                yield Expression(Language.SETTINGS, condition)
            for value in (condition, task.get("parameters"), task.get("strategy")):
                yield from computed(value)


def documents(file: Path) -> list[dict[str, Any]]:
    read = yaml.load(file.read_text(), yaml.CSafeLoader)
    return [task for task in read if isinstance(task, dict)] if isinstance(read, list) else []


def computed(value: Any) -> Iterator[Expression]:
    if isinstance(value, dict) and "yaql_exp" in value:
        yield Expression(Language.YAQL, value["yaql_exp"])
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from computed(each)


@needs("fuel")
@pytest.mark.parametrize("release", RELEASES)
def test_every_condition_of_a_release_parses(release: str) -> None:
    found = list(expressions(release))
    for expression in found:
        parse(expression)
    for language, count in RELEASES[release].items():
        assert sum(expression.language is language for expression in found) == count


@needs("fuel")
@pytest.mark.parametrize("release", RELEASES)
def test_every_condition_of_a_release_is_false_on_settings_without_anything(release: str) -> None:
    for expression in expressions(release):
        if expression.language is Language.SETTINGS and "false" not in expression.text:
            assert not evaluate(parse(Expression(Language.SETTINGS, expression.text, strict=False)), Models()).holds

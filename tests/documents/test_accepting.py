"""A value that the quick look accepts has no fault by the library, and a document without a fault is accepted."""

from __future__ import annotations

import copy
import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.documents import schema as schemas
from nodepool_ocb.documents.accepting import acceptor
from nodepool_ocb.documents.document import load_all
from nodepool_ocb.model.records import Json

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = {
    "barclamp.json": sorted(ROOT.glob("etc/barclamps/*.yml")),
    "config.json": [ROOT / "etc/nodepool-ocb.yaml"],
    "nodepool.json": [ROOT / "etc/nodepool.yaml", ROOT / "etc/provisioner/nodepool.yaml"],
    "site.json": [ROOT / "tests/cli/site.yaml"],
    "tasks.json": sorted(ROOT.glob("tests/stories/tasks/*.yaml")),
}
STRATEGY: Final = {
    "groups": [
        {"name": "control", "critical": True, "depends_on": [], "selectors": [{"node_tags": ["control"]}]},
        {
            "name": "compute",
            "critical": False,
            "depends_on": ["control"],
            "selectors": [],
            "success_criteria": {"percent_successful_nodes": 90},
        },
    ]
}


class Text(str):
    """As a member of a StrEnum: a text for the library."""

    __slots__ = ()


VALUES: Final[list[Json]] = [
    *(None, True, False, 0, 1, 2, -1, 1.0, 0.5, 2.5, 10**20, "", "a", "b", "ab", "abc", "1", [], ["a"], ["a", "b"]),
    *(["a", "a"], [1, True], [1, 1.0], [[], []], [None], {}, {"a": 1}, {"a": "a"}, {"b": None}, {"a": 1, "b": 2}),
    *(Text("a"), {"type": Text("x")}, {Text("a"): Text("a")}),
    *({"a": {"a": 1}}, {"type": "x", "a": 1}, {"type": "x"}, {"type": "y", "a": 1}, [{"a": 1}], [{"b": 1}]),
]
CONSTANTS: Final[list[Json]] = [1, True, False, 0, None, "a", 1.0, [], {"a": 1}]
RULES: Final[list[Any]] = [
    *(True, False, {}, {"title": "t", "description": "d", "deprecated": True, "$schema": "s"}),
    *({"type": each} for each in ("object", "array", "string", "integer", "number", "boolean", "null")),
    {"type": ["string", "null"]},
    {"properties": {"a": {"type": "integer"}}},
    {"properties": {"a": True, "b": False}},
    {"properties": {"a": True}, "additionalProperties": False},
    {"properties": {"a": True}, "additionalProperties": {"type": "null"}},
    {"additionalProperties": {"type": "integer"}},
    {"additionalProperties": False},
    {"required": ["a", "b"]},
    {"items": {"type": "string"}},
    {"propertyNames": {"maxLength": 0}},
    {"propertyNames": {"enum": ["a"]}},
    *({"enum": [each]} for each in CONSTANTS),
    *({"const": each} for each in CONSTANTS),
    *({"pattern": each} for each in ("b", "^a", "^ab$")),
    *({each: 1} for each in ("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems")),
    *({each: 1} for each in ("maxItems", "minProperties", "maxProperties")),
    *({"uniqueItems": each} for each in (True, False)),
    {"anyOf": [{"type": "string"}, {"minimum": 2}]},
    {"allOf": [{"type": "string"}, {"minLength": 2}]},
    {"$ref": "#/$defs/nested"},
    {"$ref": "#/$defs/nested", "maxProperties": 0},
    {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
    {"if": {"properties": {"type": {"const": "x"}}}, "then": {"required": ["a"]}, "else": {"type": "object"}},
    {"if": {"const": 1}, "then": False},
    {"if": {"enum": [1]}, "then": True, "else": True},
    {"then": False, "type": "string"},
    *({"oneOf": [True]}, {"not": False}, {"contains": True}, {"patternProperties": {"a": False}}, {"multipleOf": 1}),
]
NESTED: Final = {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/nested"}, {"type": "integer"}]}}
DEFS: Final = {"nested": NESTED}
#: Rules of which a value may match that the quick look refuses.
UNCERTAIN: Final = (
    "uniqueItems",
    "if",
    "then",
    "oneOf",
    "not",
    "contains",
    "patternProperties",
    "multipleOf",
    "enum",
    "const",
)


def fits(schema: Json, value: Json) -> bool:
    """By the library."""
    whole = {**schema, "$defs": DEFS} if isinstance(schema, dict) else schema
    return not any(True for _ in schemas._errors(schemas._strict()(whole), value))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_each_rule_accepts_what_the_library_accepts(rule: Any) -> None:
    accepts = acceptor(rule, DEFS)
    certain = not isinstance(rule, dict) or rule.keys().isdisjoint(UNCERTAIN)
    for value in VALUES:
        accepted, fitting = accepts(value), fits(rule, value)
        assert accepted <= fitting, value
        assert accepted == fitting or not certain, value


def test_rules_stand_beside_one_another() -> None:
    rules = [each for each in RULES if isinstance(each, dict)]
    for one, other in itertools.islice(itertools.combinations(rules, 2), 0, None, 7):
        rule = {**one, **other}
        accepts = acceptor(rule, DEFS)
        assert all(fits(rule, value) for value in VALUES if accepts(value)), rule


def documents() -> list[tuple[str, Json]]:
    found = [(name, each.value) for name, files in EXAMPLES.items() for file in files for each in load_all(file)]
    return [*found, ("strategy.json", STRATEGY)]


@pytest.mark.parametrize(("name", "value"), documents())
def test_the_shipped_documents_are_accepted_and_no_broken_one(name: str, value: Any) -> None:
    accepts, some = schemas._accepts(name), random.Random(name)
    assert accepts(value)
    for _ in range(40):
        broken = copy.deepcopy(value)
        for _ in range(some.choice([1, 1, 2])):
            damage(some, broken)
        assert not accepts(broken) or not any(True for _ in schemas._errors(schemas._validator(name), broken))


def damage(some: random.Random, value: Any) -> None:
    """Put another value, or none, at a random place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = some.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and some.random() < 0.8:
            value = inner
            continue
        if some.random() < 0.3:
            del value[key]
        elif isinstance(value, dict) and some.random() < 0.3:
            value[some.choice(["name", "nme", "type", "roles", "x"])] = inner
        else:
            value[key] = some.choice(VALUES)
        return


def test_a_document_without_a_fault_needs_no_library() -> None:
    script = (
        "import sys; from pathlib import Path; from nodepool_ocb.documents.document import load\n"
        "from nodepool_ocb.documents.schema import faults\n"
        "print(faults(load(Path(sys.argv[1])), 'site.json'), 'jsonschema' in sys.modules)"
    )
    file = str(EXAMPLES["site.json"][0])
    answer = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=True)
    assert answer.stdout == "[] False\n"

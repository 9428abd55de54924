"""JSON Schema with sentences: the faults of a document or a value, their places, and the key that was probably meant.

The schemas are the files of package ``nodepool_ocb_schemas``. Messages use the words of the reader's file, not of the
schema. If a value does not match, the ``description`` of its schema is part of the sentence. A key that is
``deprecated`` is accepted without effect: no message advises it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nodepool_ocb.documents.accepting import Accepts, acceptor
from nodepool_ocb.documents.document import SECRET, Document
from nodepool_ocb.documents.plainyaml import Fault, Key, kind_of
from nodepool_ocb.documents.suggest import did_you_mean, nearest
from nodepool_ocb.model.records import Json

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError  # the library takes long to import, and is when it is used

_KINDS: Final = {
    "array": "a list",
    "object": "a mapping",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}

_BOUNDS: Final = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above", "exclusiveMaximum": "below"}


def faults(document: Document, schema: str, key: Key = ()) -> list[Fault]:
    """Every fault of a document, by line; an unknown key is one fault, with the key that was probably meant.

    ``schema`` is a file of ``nodepool_ocb_schemas``, or ``FILE#NAME`` for one of its ``$defs``; ``key``: where in the
    document the value is that it is for.
    """
    value = document.value
    for step in key:
        value = value[step]
    if _accepts(schema)(value):
        return []
    found = [_located(document, key, error) for error in _errors(_validator(schema), value)]
    return sorted(found, key=lambda fault: (fault.line, fault.path, fault.text))


def faults_in_value(schema: Json, value: Json) -> list[str]:
    """Every fault of a value, as ``[path: ]sentence``; the schema must be one that ``valid_schema`` accepts.

    >>> faults_in_value({"type": "array", "items": {"type": "integer"}}, [1, "2"])
    ['1: must be a whole number, and is text "2"']
    """
    sentences = []
    for error in _errors(_strict()(schema), value):
        path = "/".join(str(step) for step in error.key)
        sentences.append(f"{path}: {error.text}" if path else error.text)
    return sentences


@functools.cache
def schema_file(name: str) -> dict[str, Json]:
    """A file of package ``nodepool_ocb_schemas``; not to be changed, it is read once."""
    found: dict[str, Json] = json.loads((files("nodepool_ocb_schemas") / name).read_text(encoding="utf-8"))
    return found


def valid_schema(schema: Json) -> str | None:
    """Why something is no JSON Schema; None when it is one."""
    from jsonschema import Draft202012Validator

    error = next(iter(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)), None)
    return None if error is None else f"{'/'.join(map(str, error.absolute_path))}: {error.message}".lstrip(": ")


class _Found(msgspec.Struct, frozen=True):
    """One error of the library in our words."""

    key: Key
    text: str
    unknown: str | None = None
    meant: str | None = None


def _located(document: Document, within: Key, found: _Found) -> Fault:
    key = (*within, *found.key)
    text = f"the document {found.text}" if not key and found.text.startswith("must be ") else found.text
    return Fault(document.line(key), text, document.path(key), key, found.unknown, found.meant)


@functools.cache
def _strict() -> Any:
    """The validator. 90.0 is no whole number, as in Kwalify: the reader of the value wants an int."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    return extend(  # type: ignore[no-untyped-call]
        Draft202012Validator,
        type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
            "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
        ),
    )


@functools.cache
def _validator(schema: str) -> Any:
    part, defs = _part(schema)
    return _strict()({**_direct(part, defs, ()), "$defs": defs})


@functools.cache
def _accepts(schema: str) -> Accepts:
    """Most documents have no fault, and the library is not imported for them."""
    return acceptor(*_part(schema))


def _part(schema: str) -> tuple[Json, Mapping[str, Json]]:
    """A file or one of its definitions, and all of these."""
    file, _, part = schema.partition("#")
    whole = schema_file(file)
    defs: Mapping[str, Json] = whole.get("$defs", {})
    return defs[part] if part else whole, defs


def _direct(schema: Json, defs: Mapping[str, Json], within: tuple[str, ...]) -> Json:
    """The schema with its references replaced by their targets, because the library resolves references slowly. A
    reference to itself stays.
    """
    if isinstance(schema, list):
        return [_direct(each, defs, within) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if set(schema) == {"$ref"} and name in defs and name not in within:
        return _direct(defs[name], defs, (*within, name))
    return {key: each if key == "$defs" else _direct(each, defs, within) for key, each in schema.items()}


def _errors(validator: Any, value: Json) -> Iterator[_Found]:
    for error in validator.iter_errors(value):
        yield from _of(error)


def _of(error: ValidationError) -> Iterator[_Found]:
    key = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        yield from _unknown_keys(error, key)
    elif error.validator in ("anyOf", "oneOf") and error.context:
        yield from _of_the_alternative(error, key)
    else:
        yield _Found(key, _sentence(error))


def _unknown_keys(error: ValidationError, key: Key) -> Iterator[_Found]:
    assert isinstance(error.schema, Mapping)
    instance: Any = error.instance
    properties: Mapping[str, Any] = error.schema.get("properties", {})
    known = [name for name, rule in properties.items() if rule is True or not rule.get("deprecated")]
    for name in (name for name in instance if name not in properties):
        meant = nearest(name, known, present=instance)
        advice = (
            f"; did you mean `{meant}`?" if meant else f"; known here: {', '.join(sorted(known)) or 'no key at all'}"
        )
        yield _Found((*key, name), f"unknown key `{name}`{advice}", name, meant)


def _of_the_alternative(error: ValidationError, key: Key) -> Iterator[_Found]:
    """The faults by the alternative with a fitting type, if there is one; else the alternatives."""
    fitting = [each for each in error.context or () if each.validator != "type" or len(each.relative_path) > 0]
    if fitting:
        yield from _of(fitting[0])
        return
    alternatives: list[Any] = [each.validator_value for each in error.context or ()]
    wanted = " or ".join(map(_kinds, alternatives))
    yield _Found(key, f"must be {wanted}, and is {_shown(error.instance, key)}")


def _sentence(error: ValidationError) -> str:
    value: Any = error.instance
    wanted: Any = error.validator_value
    shown = _shown(value, tuple(error.absolute_path))
    rule = str(error.validator)
    match rule:
        case "type":
            within: Any = error.schema
            if any(map(SECRET.search, within.get("properties", ()))):
                shown = kind_of(value)  # it may be the value of such a key
            return f"must be {_kinds(wanted)}, and is {shown}"
        case "required":
            missing = [name for name in wanted if name not in value]
            return f"key `{next((name for name in missing if repr(name) in error.message), missing[0])}` is missing; add it"
        case "enum":
            words = [word if isinstance(word, str) else json.dumps(word) for word in wanted]
            hint = did_you_mean(value, words) if isinstance(value, str) else ""
            return f"must be one of {', '.join(words)}, and is {shown}{hint}"
        case "pattern":
            schema: Any = error.schema
            return f"must be {schema.get('description') or f'text that matches {wanted}'}, and is {shown}"
        case "uniqueItems":
            twice = next((item for at, item in enumerate(value) if item in value[:at]), value)
            return f"holds {_shown(twice, tuple(error.absolute_path))} twice; remove one of them"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            least = "at least" if rule.startswith("min") else "at most"
            what = {"Length": "letter", "Items": "item", "Properties": "key"}[rule[3:]] + ("s" if wanted != 1 else "")
            return f"must have {least} {wanted} {what}, and has {len(value)}"
    if rule in _BOUNDS:
        return f"must be {_BOUNDS[rule]} {wanted}, and is {shown}"
    return f"does not match `{rule}`, and is {shown}; correct it"


def _kinds(kinds: str | list[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _shown(value: Json, key: Key = ()) -> str:
    """A value in a sentence; for a value that is or may be a secret, its kind alone."""
    secret = any(isinstance(step, str) and SECRET.search(step) for step in key)
    if value is None or isinstance(value, list | dict) or secret or (isinstance(value, str) and SECRET.search(value)):
        return kind_of(value)
    text = json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= 60 else text[:57] + '..."'
    return f"text {shown}" if isinstance(value, str) else shown

"""Nodepool's dialect of YAML, read into a document that its schema accepts.

- ``%(NODEPOOL_X)`` in a text becomes the value of the environment variable NODEPOOL_X. It is inserted after the file was
  parsed, so any value stays one value. Where a number or a boolean is meant, it may be one.
- Where a number is meant, a quoted one is a number.
- Where a boolean is meant, the words of YAML 1.1 (yes, no, on, off) are booleans; elsewhere they are text.
- A fault below an alias or a merge key is reported once, where it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault, Key, parse
from nodepool_ocb.documents.schema import faults, schema_file
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json

ROOT: Final[Key] = ()
#: The words that PyYAML, and so Nodepool, reads as booleans, in small letters.
WORDS: Final = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
#: Keys with lengths of time as values.
DURATIONS: Final = frozenset(
    {"rebuild-age", "build-timeout", "image-upload-timeout", "max-ready-age", "zookeeper-timeout"}
)

_WRITTEN = re.compile(r"%\((NODEPOOL_\w+)\)")
_SHOWN = re.compile(r', and is (text( ".*")?|a number|[-+.0-9e]+|true or false|true|false)', re.DOTALL)
_MARKED = re.compile("\ue000(NODEPOOL_\\w+)\ue001")  # YAML takes these letters anywhere; % may begin no value


class NodepoolDocument(msgspec.Struct, frozen=True):
    """A document with Nodepool's meaning, beside the document as written."""

    document: Document
    written: Document
    origins: Mapping[int, Key]  # of each mapping and list of ``written``, by identity: where it is first
    faults: tuple[Fault, ...]  # by line; where there are any, parts of ``document`` may be of any type

    @property
    def warnings(self) -> tuple[str, ...]:
        """Oddities without effect, such as a key that is there twice with one value."""
        return tuple(map(_restored, self.written.warnings))

    def fault(self, key: Key, text: str) -> Fault:
        """A fault where something is written; an alias may have brought it to ``key``."""
        value, origin = self.written.value, ROOT
        for step in key:
            origin = (*self.origins[id(value)], step)
            value = value[step]
        return Fault(self.written.line(origin), _restored(text), _restored(self.written.path(origin)), origin)

    def line(self, key: Key) -> int:
        """The line of a key."""
        return self.fault(key, "").line

    def problems(self, more: list[Fault], secret: bool = False) -> list[str]:
        """Every fault, and ``more``: each once, by line; without the values where they are ``secret``."""
        faults = {(fault.line, fault.path, fault.text): fault for fault in (*self.faults, *more)}
        lines = [faults[each].at(self.written.name) for each in sorted(faults)]
        return [_SHOWN.sub("", line) for line in lines] if secret else lines


def load(path: Path, schema: str, environ: Mapping[str, str]) -> NodepoolDocument:
    """The content of a file. Raises Invalid for a file that cannot be read or is no YAML; all other faults are in the result."""
    try:
        text = _WRITTEN.sub("\ue000\\1\ue001", documents.read(path))
        written = documents.load(text, str(path), lenient=True)
    except Invalid as wrong:
        raise Invalid([_restored(problem) for problem in wrong.problems]) from wrong
    meaning = _Conversion(schema_file(schema), environ)
    document = Document(written.name, meaning.of(written.value, [schema_file(schema)], ()), written.lines)
    bare = NodepoolDocument(document, written, _origins(written.value), ())
    found = [bare.fault(key, text) for key, text in meaning.faults]
    unread = {key for key, _ in meaning.faults}  # their values are not known, so the schema cannot judge them
    found += [
        bare.fault(each.key, _advised(document, each)) for each in faults(document, schema) if each.key not in unread
    ]
    return NodepoolDocument(document, written, bare.origins, tuple(sorted(found, key=lambda fault: fault.line)))


class _Conversion:
    """Values converted to the types that the schema expects; faults are noted."""

    def __init__(self, schema: Mapping[str, Json], environ: Mapping[str, str]) -> None:
        self._schema = schema
        self._environ = environ
        self.faults: list[tuple[Key, str]] = []

    def of(self, value: Json, schemas: list[Json], key: Key) -> Json:
        """A value converted by the schemas that apply to it."""
        schemas = [each for schema in schemas for each in self._applying(schema, value)]
        if isinstance(value, dict):
            return {name: self.of(value[name], _below(schemas, name), (*key, name)) for name in self._names(value, key)}
        if isinstance(value, list):
            items = [schema["items"] for schema in schemas if "items" in schema]
            return [self.of(item, items, (*key, index)) for index, item in enumerate(value)]
        return self._scalar(value, schemas, key) if isinstance(value, str) else value

    def _applying(self, schema: Json, value: Json) -> Iterator[Mapping[str, Json]]:
        """A schema, with those that it refers to."""
        if not isinstance(schema, dict):
            return
        yield schema
        if "$ref" in schema:
            yield from self._applying(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], value)
        if "if" in schema and isinstance(value, dict):
            wanted = schema["if"]["properties"].items()
            if all(value.get(name, each["const"]) == each["const"] for name, each in wanted):
                yield from self._applying(schema["then"], value)

    def _names(self, value: Mapping[str, Json], key: Key) -> Iterator[str]:
        for name in value:
            if _MARKED.search(name):
                self.faults.append(((*key, name), "a key cannot come from the environment; write the key itself"))
            yield name

    def _scalar(self, written: str, schemas: list[Json], key: Key) -> Json:
        text = _MARKED.sub(lambda found: self._environ.get(found[1], f"%({found[1]})"), written)
        for name in dict.fromkeys(_MARKED.findall(written)):
            if name not in self._environ:
                sentence = f"environment variable {name} is not defined; define it, or write the value itself"
                self.faults.append((key, sentence))
        kinds = {kind for schema in schemas for kind in _kinds(schema)}
        if "string" in kinds:
            return text
        if "boolean" in kinds and text.lower() in WORDS:
            return WORDS[text.lower()]
        number = parse(text).value if kinds & {"integer", "number"} else None
        return number if isinstance(number, int | float) and not isinstance(number, bool) else text


def _below(schemas: list[Json], name: str) -> list[Json]:
    found = [schema.get("properties", {}).get(name, schema.get("additionalProperties")) for schema in schemas]
    return [schema for schema in found if isinstance(schema, dict)]


def _kinds(schema: Mapping[str, Json]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _origins(value: Json) -> dict[int, Key]:
    """The first place of each mapping and list, by ``id``; an alias repeats an earlier one."""
    found: dict[int, Key] = {}
    waiting: list[tuple[Json, Key]] = [(value, ())]
    while waiting:
        value, key = waiting.pop()
        if isinstance(value, dict | list) and id(value) not in found:
            found[id(value)] = key
            below = list(value.items() if isinstance(value, dict) else enumerate(value))
            waiting += [(inner, (*key, step)) for step, inner in reversed(below)]
    return found


def _advised(document: Document, fault: Fault) -> str:
    """The text of a fault, with the next step if that is not obvious."""
    value = document.value
    for step in fault.key:
        value = value[step]
    if fault.text.startswith("must be text") and isinstance(value, int | float):
        return f"{fault.text}; quote it"
    if fault.text.startswith("must be a") and fault.key[-1:] and fault.key[-1] in DURATIONS:
        return f"{fault.text}; it counts seconds"
    return fault.text


def _restored(text: str) -> str:
    """A sentence with the variables as they are written."""
    return _MARKED.sub(r"%(\1)", text)

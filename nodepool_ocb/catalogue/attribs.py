"""The attributes that a role declares in a barclamp: names for paths in the JSON of a jig, with defaults and Kwalify schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nodepool_ocb.catalogue import kwalify
from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.engine import attributes
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Attrib, Json


class FaultAt(Protocol):
    """Makes a sentence about an item of the list of attributes (or a key of it) into ``FILE:LINE: PATH: sentence``."""

    def __call__(self, text: str, *below: str | int) -> str: ...


class Attribs:
    """The result of reading a list of attributes: those ``found``, their ``template``, and the problems."""

    def __init__(self, fault: FaultAt) -> None:
        self._fault = fault
        self.found: list[Attrib] = []
        self.template: dict[str, Json] = {}
        self.warnings: list[str] = []
        self.problems: list[str] = []

    def read(self, raws: list[Mapping[str, Any]]) -> None:
        """Take a list of attributes as the barclamp schema lets it pass."""
        for index, raw in enumerate(raws):
            attrib = self._attrib(index, raw)
            self._default(index, attrib, "default" in raw)
            first = next((each for each, other in enumerate(self.found) if other.name == attrib.name), None)
            if first is None:
                self.found.append(attrib)
            else:
                text = f"attribute {attrib.name} is declared twice; this one counts only as the default of {attrib.map}"
                self.warnings.append(self._fault(f"{text}; rename one of them", index, "name"))

    def _attrib(self, index: int, raw: Mapping[str, Any]) -> Attrib:
        rule = raw.get("schema")
        schema: Json = None
        try:
            schema = None if rule is None else kwalify.translate(rule, did_you_mean)
        except Invalid as wrong:
            self.problems += [self._fault(text, index, "schema") for text in wrong.problems]
        return Attrib(
            name=raw["name"].strip(),
            map=raw["map"],
            description=raw.get("description"),
            default=raw.get("default"),
            schema=schema,
            ui_renderer=raw.get("ui_renderer"),
            secret=raw.get("secret", False),
        )

    def _default(self, index: int, attrib: Attrib, given: bool) -> None:
        if not given:
            return
        if attrib.secret and attrib.default is not None and not _refers(attrib.default):
            text = "a secret must not have a default in a file that all can read; leave it out, or write a reference:"
            self.problems.append(self._fault(f'{text} {{"$secret": "vault:PATH#KEY"}}', index, "default"))
            return
        if attrib.schema is not None and not secrecy.holds(attrib.default):
            for fault in faults_in_value(attrib.schema, attrib.default):
                text = (
                    f"the default does not fit its own schema: {fault}; it is used, but a person cannot set that value"
                )
                self.warnings.append(self._fault(text, index, "default"))
        steps = attrib.map.split("/")
        for length in range(1, len(steps)):
            path = "/".join(steps[:length])
            if not isinstance(attributes.at(self.template, path, {}), dict):
                text = f"{attrib.map} lies inside {path}, which another default makes a plain value; change one of both"
                self.problems.append(self._fault(text, index, "map"))
                return
        before = attributes.at(self.template, attrib.map, None)
        both = isinstance(before, dict) and isinstance(attrib.default, dict)
        self.template = attributes.write(
            self.template, attrib.map, attributes.merge(before, attrib.default) if both else attrib.default
        )


def _refers(value: Json) -> bool:
    """Whether it is a reference to a secret."""
    text = secrecy.text_of(value)
    try:
        return text is not None and bool(secrecy.reference(text))
    except Invalid:
        return False

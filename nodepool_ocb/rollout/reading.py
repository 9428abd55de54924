"""Deployment strategies (seed 003): Airship's documents, and ours beside them, to records.

A document is Airship's as it is (``schema: shipyard/DeploymentStrategy/v1``), or its ``data`` alone; a file may hold
several, and documents of another ``schema`` are passed over. Every fault is reported at once, with file, line and path. Ours
beside Airship's keys, and off by default: docs/rollouts.md names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents import validation
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.rollout.strategy import NAME, SCHEMA, Selector, Strategy


def load(source: Path | str, name: str | None = None, *, called: str | None = None) -> Strategy:
    """The strategy in a file, or in text when its ``called`` is given: the one of this ``name``, or the only one.

    Raises Invalid with every fault of every strategy in it; NotFound where there is no file, or none of the name.
    """
    found = load_all(source, called)
    strategies = {strategy.name: strategy for strategy in found}
    wanted = name or (found[0].name if len(found) == 1 else NAME)
    if wanted not in strategies:
        raise NotFound(f"{called or source} holds no strategy {wanted}, but {', '.join(strategies)}; name one of these")
    return strategies[wanted]


def load_all(source: Path | str, called: str | None = None) -> list[Strategy]:
    """Every strategy in a file, at least one; raises Invalid with every fault, NotFound where there is no file."""
    from nodepool_ocb.rollout.faults import faults, kind  # here, since jsonschema takes long to import

    if called is None and not Path(source).exists():
        raise NotFound(f"{source} does not exist")
    read = documents.load_all(source, called)
    file = called or str(source)
    meant = [document for document in read if kind(document) in (SCHEMA, None)]
    if not meant:
        others = ", ".join(sorted({str(kind(document)) for document in read}))
        raise Invalid(f"{file}: holds no document of schema {SCHEMA}" + (f", only {others}" if others else ""))
    problems = [fault.at(document.name) for document in meant for fault in faults(document)]
    if not problems:
        problems = _same_names(meant)
    if problems:
        raise Invalid(problems)
    return [_strategy(document) for document in meant]


def selector(text: str, called: str = "selector") -> Selector:
    """A selector as a document writes it, such as ``{node_tags: [control], rack_names: [rack03]}``; raises Invalid."""
    document = documents.load(text, called)
    validation.validate(document, "strategy.json#selector")
    return _selector(document.value)


def _same_names(read: Iterable[Document]) -> list[str]:
    problems, first = [], dict[str, int]()
    for document in read:
        name, line = _name(document), document.line(("metadata", "name"))
        if name in first:
            fault = Fault(
                line, f"strategy {name} is in line {first[name]} already; rename one of them", "metadata.name"
            )
            problems.append(fault.at(document.name))
        first.setdefault(name, line)
    return problems


def _name(document: Document) -> str:
    return str((document.value.get("metadata") or {}).get("name", NAME))


def _strategy(document: Document) -> Strategy:
    data: Mapping[str, Any] = document.value.get("data", document.value)
    plain = {**data, "groups": [_group(raw) for raw in data["groups"]], "name": _name(document)}
    return msgspec.convert(plain, Strategy)


def _group(raw: Mapping[str, Any]) -> dict[str, Json]:
    made = {**raw, "selectors": [msgspec.to_builtins(_selector(each)) for each in raw["selectors"]]}
    if "batches" in raw:
        made["batches"] = [_batch(each) for each in raw["batches"]]
    return made


def _selector(raw: Mapping[str, Any]) -> Selector:
    labels = [label(each) for each in raw.get("node_labels", ())]
    return msgspec.convert({**raw, "node_labels": labels}, Selector)


def label(raw: str | Mapping[str, Json]) -> str:
    """A label as selectors hold it, from the ways in which documents write it.

    >>> label("ucp_control_plane: enabled"), label({"ucp_control_plane": "enabled"}), label({"first": True})
    ('ucp_control_plane:enabled', 'ucp_control_plane:enabled', 'first:true')
    """
    if isinstance(raw, str):
        key, _, value = raw.partition(":")
        return f"{key.strip()}:{value.strip()}"
    ((key, given),) = raw.items()
    return f"{key}:{given if isinstance(given, str) else str(given).lower()}"


def _batch(raw: int | str | Mapping[str, Any]) -> dict[str, Json]:
    if isinstance(raw, dict):
        return {**_batch(raw["nodes"]), "pause": raw.get("pause", False)}
    return {"percent": int(raw.rstrip("%"))} if isinstance(raw, str) else {"nodes": raw}

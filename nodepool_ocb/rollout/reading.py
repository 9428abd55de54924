"""Deployment strategies (seed 003): Airship's documents, and ours beside them, to records.

A document is Airship's as it is (``schema: shipyard/DeploymentStrategy/v1``), or its ``data`` alone. Files may hold several,
and Airship's DeploymentConfiguration beside them. That names the strategy and the times of its phases. Documents of another
``schema`` are passed over. Every fault is reported at once, with file, line and path. Ours beside Airship's keys, and off by
default: docs/rollouts.md names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents import document as documents
from nodepool_ocb.documents import validation
from nodepool_ocb.documents.document import Document
from nodepool_ocb.documents.plainyaml import Fault
from nodepool_ocb.errors import Invalid, NotFound
from nodepool_ocb.model.records import Json
from nodepool_ocb.rollout.strategy import NAME, SCHEMA, Batch, Selector, Strategy


class StrategyChoice(msgspec.Struct, frozen=True):
    """The strategies in files (at least one), and the chosen one."""

    strategies: tuple[Strategy, ...]
    meant: str | None = None  # the name of the strategy to use, if a DeploymentConfiguration names one
    place: str = ""  # FILE:LINE of that name
    warnings: tuple[str, ...] = ()  # FILE:LINE: PATH: sentence

    def chosen(self, name: str | None, called: str) -> Strategy:
        """The strategy of this name; else the one that is meant, or the only one. Raises NotFound if it is not there."""
        strategies = {strategy.name: strategy for strategy in self.strategies}
        wanted = name or self.meant or (self.strategies[0].name if len(strategies) == 1 else NAME)
        if wanted not in strategies:
            by = (
                f"; physical_provisioner.deployment_strategy at {self.place} asks for it"
                if self.meant and not name
                else ""
            )
            known = ", ".join(strategies)
            raise NotFound(f"{called} holds no strategy {wanted}, but {known}{by}; name one of these with --name")
        return strategies[wanted]


def load(source: Path | str, name: str | None = None, *, called: str | None = None) -> Strategy:
    """The strategy in a file, or in text when its ``called`` is given, as ``StrategyChoice.chosen`` has it.

    Raises Invalid with every fault of every document in it; NotFound if there is no file, or none of the name.
    """
    return read([source], called).chosen(name, called or str(source))


def load_all(source: Path | str, called: str | None = None) -> list[Strategy]:
    """Every strategy in a file, at least one; raises as ``read`` does."""
    return list(read([source], called).strategies)


def read(sources: Sequence[Path | str], called: str | None = None) -> StrategyChoice:
    """The strategies in files, or in one text if its ``called`` (its name in messages) is given.

    Raises Invalid with every fault, NotFound for a missing file.
    """
    from nodepool_ocb.rollout import configuration, faults  # here, since jsonschema takes long to import

    found = [document for source in sources for document in _documents(source, called)]
    meant = [document for document in found if faults.kind(document) in (SCHEMA, None)]
    beside = [document for document in found if faults.kind(document) == configuration.SCHEMA]
    if not meant:
        files = called or ", ".join(map(str, sources))
        others = ", ".join(sorted({str(faults.kind(document)) for document in found}))
        raise Invalid(
            f"{files}: holds no document of schema {SCHEMA}"
            + (f", only {others}" if others else "")
            + "; name the file of a strategy"
        )
    problems = [fault.at(document.name) for document in meant for fault in faults.faults(document)]
    problems += [fault.at(document.name) for document in beside for fault in configuration.faults(document)]
    if problems or (problems := _same_names(meant)):
        raise Invalid(problems)
    said, problems = configuration.one(beside)
    if problems:
        raise Invalid(problems)
    warnings = [warning for document in found for warning in document.warnings]
    warnings += [warning.at(document.name) for document in meant for warning in faults.warnings(document)]
    return StrategyChoice(
        tuple(_strategy(document, said.seconds) for document in meant), said.strategy, said.place, tuple(warnings)
    )


def _documents(source: Path | str, called: str | None) -> list[Document]:
    if called is None and not Path(source).exists():
        raise NotFound(f"{source} does not exist; check the path")
    return documents.load_all(source, called, lenient=True)


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


def _strategy(document: Document, seconds: Mapping[str, float]) -> Strategy:
    """``seconds``: of a phase for which the document itself names no time."""
    data: Mapping[str, Any] = document.value.get("data", document.value)
    plain = {**data, "groups": [_group(raw) for raw in data["groups"]], "name": _name(document)}
    made = msgspec.convert(plain, Strategy)
    own = {raw["name"] for raw in data.get("phases", ()) if "timeout_seconds" in raw}
    phases = [
        replace(phase, timeout_seconds=seconds[phase.name])
        if phase.name in seconds and phase.name not in own
        else phase
        for phase in made.phases
    ]
    return replace(made, phases=tuple(phases))


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


def batch(text: str) -> Batch:
    """A batch as a command names it; raises ValueError, with the text, where it is none.

    >>> batch("5").nodes, batch("10%").percent
    (5, 10)
    """
    number = text.removesuffix("%")
    if not number.isascii() or not number.isdecimal() or not 1 <= int(number) <= (100 if number != text else 10**9):
        raise ValueError(text)
    return msgspec.convert(_batch(text if number != text else int(text)), Batch)


def _batch(raw: int | str | Mapping[str, Any]) -> dict[str, Json]:
    if isinstance(raw, dict):
        return {**_batch(raw["nodes"]), "pause": raw.get("pause", False)}
    return {"percent": int(raw.rstrip("%"))} if isinstance(raw, str) else {"nodes": raw}

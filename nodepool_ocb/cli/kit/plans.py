"""Files of saved plans: ``--dry-run --save FILE`` writes one, and ``--plan FILE`` reads it.

A file is read strictly: each fault names the file, its line and its key. It is YAML, or JSON if its name ends with ``.json``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from nodepool_ocb.documents import document, written
from nodepool_ocb.documents.document import Bounds, Document
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.plans.saved import SavedPlan

MOST: Final = Bounds(bytes=16 << 20, nodes=1_000_000)
AGAIN: Final = "save the plan again with --dry-run --save"
_PLACE: Final = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP: Final = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<item>\d+)\]")


def refuse_existing(file: str) -> None:
    """Raises Invalid for a file that exists: it may be a plan that was approved."""
    if os.path.lexists(file):
        raise Invalid(f"{file} exists already; name another file for the plan, or delete this one")


def write(plan: SavedPlan, file: str) -> None:
    """Write a new file; raises Invalid."""
    value = msgspec.to_builtins(plan)
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n" if _is_json(file) else written.text(value)
    try:
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise Invalid(f"{file}: cannot be written: {error.strerror}; name another file for the plan") from error


def _is_json(file: str) -> bool:
    return file.endswith(".json")


def read(file: str) -> SavedPlan:
    """The plan in a file. Raises Invalid."""
    found = document.load_all(Path(file), most=MOST)
    if len(found) != 1:
        raise Invalid(f"{file}: has {len(found)} documents, and a plan is one; {AGAIN}")
    return plan_in(found[0])


def plan_in(found: Document) -> SavedPlan:
    """The plan in a document. Raises Invalid, which names the line and the key."""
    try:
        plan = msgspec.convert(found.value, SavedPlan)
    except msgspec.ValidationError as wrong:
        place = _PLACE.search(str(wrong))
        steps = _STEP.finditer(place["path"] if place else "")
        _refuse(found, [each["key"] or int(each["item"]) for each in steps], _PLACE.sub("", str(wrong)))
    if (unknown := _unknown(found.value, msgspec.to_builtins(plan))) is not None:
        _refuse(found, unknown, "a plan has no such key")
    return plan


def _refuse(found: Document, key: Sequence[str | int], text: str) -> NoReturn:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in key).lstrip(".")
    raise Invalid(f"{found.name}:{found.line(key)}: {f'{place}: ' if place else ''}{text}; {AGAIN}")


def _unknown(given: Json, known: Json) -> list[str | int] | None:
    """The way to a key that a plan does not have."""
    pairs: list[tuple[str | int, Any, Any]] = []
    if isinstance(given, dict) and isinstance(known, dict):
        if left := [key for key in given if key not in known]:
            return [left[0]]
        pairs = [(key, value, known[key]) for key, value in given.items()]
    elif isinstance(given, list) and isinstance(known, list | tuple):
        pairs = [(number, one, other) for number, (one, other) in enumerate(zip(given, known, strict=False))]
    for step, one, other in pairs:
        if (below := _unknown(one, other)) is not None:
            return [step, *below]
    return None

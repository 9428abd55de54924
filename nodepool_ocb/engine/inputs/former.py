"""The inputs of older runs: each run that succeeded records how its inputs differ from those of the run before it.

The inputs of the newest run are stored whole. From there the differences lead back, run by run, as far as the records of
runs go. Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from nodepool_ocb.engine.attributes import MISSING, differ
from nodepool_ocb.engine.inputs.given import of_instant
from nodepool_ocb.model.records import Former, Given, Json, NodeRole, Run
from nodepool_ocb.model.secrecy import is_secret

MOST_BYTES: Final = 4 << 10  # bytes of the difference that a run records
TOO_MUCH: Final = "too much was changed by a later run to be kept"
UNREADABLE: Final = "the record of a later run is gone or cannot be read"
NOT_KEPT: Final = "nothing is kept: there was nothing to run, it is a task, or it ran under an earlier version"


def former(now: Given, then: Given, number: int) -> Former:
    """The difference from the inputs ``now`` of a run to those of the run before (``then``), both as stored.

    ``number`` is that of the run before.

    >>> former(Given(jig="script", attributes={"a": {"b": 2}}), Given(jig="script", attributes={"a": {"b": 1}}), 7)
    Former(given=7, changes=((('attributes', 'a', 'b'), 1),), gone=(), reason=None)
    """
    changes: list[tuple[tuple[str, ...], Json]] = []
    gone: list[tuple[str, ...]] = []
    for keys, value in _undoing(msgspec.to_builtins(now), msgspec.to_builtins(then)):
        if value is MISSING:
            gone.append(keys)
        else:
            changes.append((keys, value))
    noted = Former(given=number, changes=tuple(changes), gone=tuple(gone))
    return noted if len(msgspec.json.encode(noted)) <= MOST_BYTES else Former(given=number, reason=TOO_MUCH)


def before(now: Given, noted: Former) -> Given:
    """The inputs of the run before, from the inputs ``now`` of a run and the difference that it recorded."""
    document = msgspec.to_builtins(now)
    for keys in noted.gone:
        del _at(document, keys)[keys[-1]]
    for keys, value in noted.changes:
        _at(document, keys)[keys[-1]] = value
    return msgspec.convert(document, Given)


def of_runs(record: NodeRole, newest: Given | None, runs: Iterable[tuple[str, Run]]) -> dict[str, Given]:
    """The inputs of each of these runs, by name; inputs that are not known have a ``reason``.

    ``newest``: the inputs stored beside the noderole; ``runs``: those that succeeded, the newest first.
    """
    found: dict[str, Given] = {}
    now, lost = newest or Given(jig=""), ""
    number: int | None = record.given
    for name, run in runs:
        if not run.given:
            found[name] = _unknown(NOT_KEPT)
            number = None if number == of_instant("noop") else number  # else an earlier version wrote the stored inputs
            continue
        if number not in (None, run.given):
            lost = lost or UNREADABLE
        found[name] = _unknown(lost) if lost else now
        number = run.given
        if run.former is not None:
            number, lost = run.former.given, lost or run.former.reason or ""
            with contextlib.suppress(LookupError, TypeError, msgspec.ValidationError):
                now = now if lost else before(now, run.former)
                continue
            lost = UNREADABLE
    return found


def _unknown(reason: str) -> Given:
    return Given(jig="", reason=reason)


def _undoing(now: Any, then: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The keys at which ``now`` differs from ``then``, each with the value of ``then``: MISSING if it has none."""
    whole = is_secret(now) or is_secret(then) or not (isinstance(now, Mapping) and isinstance(then, Mapping))
    if above and whole:
        if differ(now, then):
            yield above, then
        return
    for key in sorted(now.keys() | then.keys()):
        yield from _undoing(now.get(key, MISSING), then.get(key, MISSING), (*above, key))


def _at(document: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The map that has the last of these keys."""
    for key in keys[:-1]:
        document = document[key]
    return document

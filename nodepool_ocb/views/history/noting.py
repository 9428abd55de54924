"""An entry of the journal from the changes of a transaction. Its size is bounded, for changes of any size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.journal import Effect, Entry, FieldChange
from nodepool_ocb.model.limits import ENTRY_BYTES
from nodepool_ocb.model.records import Change, Create, NodeRole, Set
from nodepool_ocb.views.changes import ChangeRow
from nodepool_ocb.views.history import placing
from nodepool_ocb.views.history.placing import NotedDeployment

T = TypeVar("T")

SUBJECT_BYTES: Final = 1024  # of all names
TEXT: Final = 300  # characters of a reason, a verb, a name
SPARE_BYTES: Final = 64  # for the numbers that are added at the end

_encode = msgspec.json.Encoder().encode


def entry(bare: Entry, rows: Iterable[ChangeRow], places: Mapping[str, NotedDeployment | None] = {}) -> Entry:
    """``bare`` with the subjects and changes of the rows: as many as there is room for, and the number of the rest.

    ``places``: of the changed nodes and noderoles, by path.
    """
    rows = list(rows)
    names = list(dict.fromkeys(_cut(row.name) for row in rows if row.name))
    subjects = _fitting(names, SUBJECT_BYTES)
    made = replace(
        bare,
        verb=_cut(bare.verb),
        login=_cut(bare.login),
        host=_cut(bare.host),
        reason=None if bare.reason is None else _cut(bare.reason),
        subjects=tuple(subjects),
        more=len(names) - len(subjects),
    )
    room = ENTRY_BYTES - len(_encode(made)) - SPARE_BYTES
    every = [_effect(row, places.get(placing.owner(row.kind, row.name) or "")) for row in rows]
    effects = _fitting(every, room) or [_shortened(each, room) for each in every[:1]]
    return replace(made, changes=tuple(effects), left_out=len(rows) - len(effects))


def worth(changes: Iterable[Change]) -> list[Change]:
    """Without the noderoles that a run of tasks makes: the run itself is told. Without the news of machines that wait, too."""
    return [each for each in changes if not (isinstance(each, Create) and _of_run(each.data)) and not _waits(each)]


def _waits(change: Change) -> bool:
    return isinstance(change, Set) and isinstance(change.data, MachineRegistration)


def _of_run(data: object) -> bool:
    return isinstance(data, NodeRole) and data.task_run is not None


def _effect(row: ChangeRow, place: NotedDeployment | None) -> Effect:
    fields = tuple(FieldChange(field=each.field, old=each.old, new=each.new) for each in row.fields or ())
    made = Effect(change=row.change, kind=row.kind, name=_cut(row.name), state=row.state, fields=fields)
    return made if place is None else replace(made, deployment=place.deployment, former=place.former)


def _shortened(effect: Effect, room: int) -> Effect:
    """With as many of its fields as there is room for."""
    fields = _fitting(effect.fields, room - len(_encode(replace(effect, fields=()))) - SPARE_BYTES)
    return replace(effect, fields=tuple(fields), more=len(effect.fields) - len(fields))


def _fitting(values: Sequence[T], room: int) -> list[T]:
    """As many of the first items as fit into this number of bytes of JSON."""
    fitting = []
    for value in values:
        room -= len(_encode(value)) + 1
        if room < 0:
            break
        fitting.append(value)
    return fitting


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."

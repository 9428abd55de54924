"""The attributes that a noderole's jig would see now, and where two noderoles see others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from nodepool_ocb.engine.inputs.effective import Effective, Said, Unlike
from nodepool_ocb.engine.inputs.layers import LayerKind, Origin
from nodepool_ocb.engine.inputs.outdated import InputChange
from nodepool_ocb.model.records import Json
from nodepool_ocb.views.attributes.values import text
from nodepool_ocb.views.view import View


class SaidRow(View, frozen=True, kw_only=True):
    """The value that a layer sets at a place."""

    place: str
    value: Json
    layer: str  # as words
    kind: LayerKind
    subject: str  # a noderole; ROLE of DEPLOYMENT for a deployment role, the node for hints, the role for a default
    origin: Origin
    by: str  # the noderole that brings the layer


class EffectiveRow(View, frozen=True, kw_only=True):
    """A value that the jig sees, and the values that it hides, the strongest first."""

    row: SaidRow
    hides: tuple[SaidRow, ...]


class ShortRow(View, frozen=True, kw_only=True):
    """A value in a table."""

    place: str
    value: str
    layer: str


class EffectiveDocument(View, frozen=True, kw_only=True):
    """All that the jig sees, and each value with its layer."""

    noderole: str
    attributes: dict[str, Json]
    values: tuple[EffectiveRow, ...]


class UnlikeRow(View, frozen=True, kw_only=True):
    """A place at which two noderoles see, or two runs were given, different values; UNSET where there was nothing."""

    place: str
    one: Json | msgspec.UnsetType
    other: Json | msgspec.UnsetType
    layer_of_one: str | None
    layer_of_other: str | None


class UnlikeDocument(View, frozen=True, kw_only=True):
    """The differences between the attributes that two noderoles see, or between the inputs of two runs."""

    one: str
    other: str
    differences: tuple[UnlikeRow, ...]


def document(name: str, found: Iterable[Effective]) -> EffectiveDocument:
    """The attributes that the noderole of this name sees."""
    found = list(found)
    rows = (EffectiveRow(row=_said(each.said), hides=tuple(map(_said, each.hides))) for each in found)
    return EffectiveDocument(noderole=name, attributes=_nested(each.said for each in found), values=tuple(rows))


def short(shown: EffectiveDocument) -> list[ShortRow]:
    """The rows of a table."""
    rows = (each.row for each in shown.values)
    return [ShortRow(place=each.place, value=text(each.value), layer=each.layer) for each in rows]


def explained(shown: EffectiveDocument) -> Iterator[str]:
    """Each value with its layer and the values that it hides, as lines of text."""
    for each in shown.values:
        yield f"{each.row.place}: {text(each.row.value)}"
        yield f"    {each.row.layer}"
        for hidden in each.hides:
            place = "" if hidden.place == each.row.place else f"{hidden.place}: "
            yield f"    hides {place}{text(hidden.value)}"
            yield f"        {hidden.layer}"


def unlike(one: str, other: str, found: Sequence[Unlike]) -> UnlikeDocument:
    """How the noderoles of these names differ."""
    return UnlikeDocument(one=one, other=other, differences=tuple(map(_unlike, found)))


def of_runs(one: str, other: str, found: Iterable[InputChange]) -> UnlikeDocument:
    """The differences between the inputs of the runs of these names. The layers are null: a run does not record them."""
    rows = (
        UnlikeRow(place=each.what, one=each.before, other=each.now, layer_of_one=None, layer_of_other=None)
        for each in found
    )
    return UnlikeDocument(one=one, other=other, differences=tuple(rows))


def compared(shown: UnlikeDocument) -> Iterator[str]:
    """Each difference as lines."""
    for each in shown.differences:
        yield each.place
        for name, value, layer in (
            (shown.one, each.one, each.layer_of_one),
            (shown.other, each.other, each.layer_of_other),
        ):
            yield f"    {name}: {text(value)}"
            if layer is not None:
                yield f"        {layer}"


def _nested(seen: Iterable[Said]) -> dict[str, Json]:
    made: dict[str, Json] = {}
    for said in seen:
        *above, last = said.steps
        here = made
        for step in above:
            here = here.setdefault(step, {})
        here[last] = said.value
    return made


def _said(said: Said) -> SaidRow:
    brought = said.brought
    return SaidRow(
        place=said.place,
        value=said.value,
        layer=str(brought),
        kind=brought.layer.kind,
        subject=brought.layer.subject,
        origin=brought.origin,
        by=brought.by,
    )


def _unlike(each: Unlike) -> UnlikeRow:
    return UnlikeRow(
        place=each.place,
        one=each.one.value if each.one else msgspec.UNSET,
        other=each.other.value if each.other else msgspec.UNSET,
        layer_of_one=str(each.one.brought) if each.one else None,
        layer_of_other=str(each.other.brought) if each.other else None,
    )

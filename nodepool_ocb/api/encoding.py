"""Answers of operations as JSON, without any secret. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nodepool_ocb.model.secrecy import hidden
from nodepool_ocb.views.keptrows import EncodedRows
from nodepool_ocb.views.view import View, is_flat, public


def encoded(answers: Sequence[Any], notes: Sequence[str], more: Mapping[str, Any]) -> bytes:
    """The document of one answer, or of the answers of several rounds."""
    body = {"answer": answers[0]} if len(answers) == 1 else {"answers": answers}
    return msgspec.json.encode({**body, **more, "notes": list(notes)})


def shown(value: Any) -> Any:
    """An answer as JSON without any secret."""
    return hidden(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, View):
        return public(value)
    if isinstance(value, msgspec.Raw):  # a site file: it may have a secret
        return msgspec.json.decode(value)
    if isinstance(value, EncodedRows):
        return value.json()
    if (
        isinstance(value, list)
        and value
        and all(issubclass(each, View) and is_flat(each) for each in {*map(type, value)})
    ):
        return msgspec.Raw(msgspec.json.encode(value))  # they hold no secret, and this is much faster
    if isinstance(value, msgspec.Struct):
        return {
            name: _plain(each)
            for name in value.__struct_fields__
            if (each := getattr(value, name)) is not msgspec.UNSET
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)

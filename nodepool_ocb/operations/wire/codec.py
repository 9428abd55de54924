"""Operations and their answers as JSON, in both directions: each decoded value equals the encoded one.

A client may be older than its server: keys of an answer that a client does not know are ignored. A server must not carry
out a half understood order: fields of an operation that the server does not know are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.operations.operation import Operation

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode


def encode_fields(operation: Operation[Any]) -> bytes:
    """The fields of an operation as a JSON object."""
    return _encode(operation)


def decode_operation(kind: type[Operation[T]], fields: bytes) -> Operation[T]:
    """The operation with these fields, a JSON object. Raises Invalid, which names the operation and the field."""
    try:
        if unknown := sorted(_keys(fields) - set(kind.__struct_encode_fields__)):
            known = ", ".join(kind.__struct_encode_fields__) or "none"
            raise Invalid(f"{kind.title()}: there is no field {', '.join(unknown)}; the fields are: {known}")
        operation: Operation[T] = _decoder(kind).decode(fields)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
        raise Invalid(f"{kind.title()}: {wrong}") from wrong
    return operation


def encode_answer(answer: Any) -> bytes:
    """The answer of one round of an operation."""
    return _encode(answer)


def decode_answer(kind: type[Operation[T]], data: bytes) -> T:
    """The answer of an operation. Raises Invalid for JSON that is no answer of it."""
    try:
        answer: T = _decoder(answer_type(kind)).decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
        raise Invalid(
            f"{kind.title()}: the answer cannot be read: {wrong}; is the server of another version?"
        ) from wrong
    return answer


def answer_type(kind: type[Operation[Any]]) -> Any:
    """The T of ``Operation[T]``.

    >>> class LampLight(Operation[tuple[str, ...]], frozen=True):
    ...     noun, verb = "lamp", "light"
    >>> class LampBlink(LampLight, frozen=True):
    ...     verb = "blink"
    >>> answer_type(LampBlink)
    tuple[str, ...]
    """
    return _argument(kind, {})


def _argument(kind: type[Any], given: Mapping[Any, Any]) -> Any:
    """The argument of ``Operation`` among the bases of a class; ``given``: its type variables, with their values."""
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        arguments = [given.get(each, each) for each in get_args(base)]
        if origin is Operation:
            return arguments[0]
        if issubclass(origin, Operation):
            return _argument(origin, dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False)))
    raise TypeError(f"{kind.__name__} does not say its answer: derive it from Operation[T]")


def _keys(fields: bytes) -> set[str]:
    return set(msgspec.json.decode(fields, type=dict[str, msgspec.Raw]))


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)

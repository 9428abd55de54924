"""Operations, answers and errors in JSON. ``performing.py`` sends each answer of the other tests of this folder through it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from nodepool_ocb import errors
from nodepool_ocb.errors import Invalid, OcbError
from nodepool_ocb.operations import registry
from nodepool_ocb.operations.images.deleting import ImageDelete
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.operations.site.applying import ApplySite
from nodepool_ocb.operations.wire import codec
from nodepool_ocb.operations.wire.problems import KINDS, Problem, error_of, problem_of
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.views.view import View

OPERATIONS: Final = registry.every()
NAMES: Final = [each.__name__ for each in OPERATIONS]

SIMPLE: Final[Mapping[Any, Any]] = {str: "n1", int: 3, float: 1.5, bool: True, NoneType: None, Any: {"a": [1, None]}}
#: Fields that an operation takes in other forms than its types say.
SPECIAL: Final[Mapping[str, Mapping[str, Any]]] = {
    "DeploymentChecks": {"schedule": "0 3 * * *"},
    "NodeAlive": {"boot_id": "0b0e7f1a-1111"},
    "NoderoleRetry": {"noderoles": [], "selector": None},
}


def sample(kind: Any) -> Any:
    """A value of a type, in JSON; of a struct the fields that it must have."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if origin is Annotated:
        return sample(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in (Union, UnionType):
        return sample(next(each for each in arguments if each is not NoneType))
    if origin is tuple:
        return [sample(each) for each in arguments if each is not ...]
    if origin in (list, frozenset):
        return [sample(arguments[0])]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {str(sample(arguments[0])): sample(arguments[1])}
    if isinstance(kind, type) and issubclass(kind, tuple):  # with names
        return [sample(each) for each in get_type_hints(kind).values()]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    assert issubclass(kind, msgspec.Struct), kind
    return {each.encode_name: sample(each.type) for each in msgspec.structs.fields(kind) if each.required}


@pytest.mark.parametrize("kind", OPERATIONS, ids=NAMES)
def test_an_operation_with_all_its_fields_is_the_same_after_its_way_through_json(kind: type[Operation[Any]]) -> None:
    given = {each.name: sample(each.type) for each in msgspec.structs.fields(kind)} | SPECIAL.get(kind.__name__, {})
    made = codec.decode_operation(kind, msgspec.json.encode(given))
    assert codec.decode_operation(kind, codec.encode_fields(made)) == made
    assert type(made) is kind


def parts(kind: Any, seen: set[Any]) -> set[Any]:
    """The types that a value of a type may hold."""
    if kind in seen or kind is ...:
        return seen
    seen.add(kind)
    if isinstance(get_origin(kind) or kind, type) and issubclass(get_origin(kind) or kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            parts(field.type, seen)
    for argument in () if get_origin(kind) is Literal else get_args(kind):
        parts(argument, seen)
    return seen


@pytest.mark.parametrize("kind", OPERATIONS, ids=NAMES)
def test_the_answer_of_an_operation_has_a_type_that_json_can_hold(kind: type[Operation[Any]]) -> None:
    """A base class of views would be read without the fields of the view."""
    answer = codec.answer_type(kind)
    msgspec.json.Decoder(answer)
    found = parts(answer, set())
    assert View not in found
    keys = {get_args(each)[0] for each in found if get_origin(each) in (dict, Mapping)}
    assert all(key in (str, int) or issubclass(key, enum.Enum) for key in keys), keys


def test_a_field_that_an_operation_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="image delete: there is no field forse; the fields are: image, build, force"):
        codec.decode_operation(ImageDelete, b'{"image": "jammy", "forse": true}')


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (b'{"image": 3}', r"Expected `str`, got `int` - at `\$\.image`"),
        (b"{}", "missing required field `image`"),
        (b'{"image": "jammy"', "truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"image": "\xff"}', "utf-8"),
    ],
)
def test_fields_of_another_form_are_refused_with_their_place(fields: bytes, problem: str) -> None:
    with pytest.raises(Invalid, match=f"image delete: .*{problem}"):
        codec.decode_operation(ImageDelete, fields)


def test_fields_that_are_nested_too_deep_are_refused() -> None:
    with pytest.raises(Invalid, match="apply: "):
        codec.decode_operation(ApplySite, b'{"wanted": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


MADE: Final[list[OcbError]] = [
    errors.Invalid(["a.yaml:3: no such key", "a.yaml:5: no such role"]),
    errors.Unreadable("no node of schema 1", "/ocb/nodes/n1"),
    errors.Spoiled("these are no attributes", "/ocb/nodes/n1/noderoles/ntp/user"),
    errors.Stale("another writer was faster", "/ocb/nodes/n1", absent=True),
    errors.NameTaken("the name is taken", 7.5),
    *(
        kind("it is so")
        for kind in KINDS.values()
        if kind not in (errors.Invalid, errors.Unreadable, errors.Spoiled, errors.Stale, errors.NameTaken)
    ),
]


@pytest.mark.parametrize("error", MADE, ids=lambda each: type(each).__name__)
def test_an_error_is_raised_again_with_its_class_its_text_its_facts_and_its_exit_code(error: OcbError) -> None:
    sent = msgspec.json.encode(problem_of(error))
    raised = error_of(msgspec.json.decode(sent, type=Problem))
    assert (type(raised), str(raised), raised.exit_code) == (type(error), str(error), error.exit_code)
    assert vars(raised) == vars(error)


def test_every_class_of_errors_is_among_the_errors_that_are_sent() -> None:
    assert {type(each) for each in MADE} == set(KINDS.values())


def test_a_document_with_a_thousand_faults_is_refused_in_the_same_words() -> None:
    error = Invalid([f"a.yaml:{line}: no such key" for line in range(1000)])
    assert str(error_of(problem_of(error))) == str(error)


def test_an_error_of_another_module_or_of_a_later_version_is_still_an_error() -> None:
    problem = problem_of(Sealed("no key opens it", own=True))
    assert (problem.error, problem.status) == ("OcbError", 500)
    later = error_of(Problem(code="locked", status=423, detail="it is locked", error="Locked"))
    assert (type(later), str(later)) == (OcbError, "it is locked")

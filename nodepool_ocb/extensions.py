"""Extensions: classes that installed packages offer through entry points. Each is loaded and checked by itself.

An extension that cannot be loaded, or that lacks a part of its contract, is left out with a reason. The others stay in use.
A contract is a Protocol or a base class: its properties and methods are the parts that an extension must have.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, get_type_hints

import msgspec

from nodepool_ocb.errors import OcbError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

T = TypeVar("T")

LONGEST_REASON: Final = 300  # characters
OWN: Final = "nodepool-ocb"  # the package of the project itself


class LeftOut(msgspec.Struct, frozen=True):
    """An extension that is not used."""

    kind: str  # jig, role, provider or backend
    name: str  # of its entry point
    reason: str  # with the package

    @property
    def title(self) -> str:
        """Its kind and name, as a registration has it."""
        return title(self.kind, self.name)

    @property
    def sentence(self) -> str:
        return f"{self.title} is left out: {self.reason}"


class Found(NamedTuple, Generic[T]):
    """The extensions of one group."""

    usable: dict[str, T]  # by the name of the entry point
    left_out: tuple[LeftOut, ...]


def title(kind: str, name: str) -> str:
    """The kind and the name of an extension."""
    return f"{kind} {name}"


def titled(left_out: Iterable[LeftOut]) -> dict[str, str]:
    """Title → reason, as a daemon registers it."""
    return {each.title: each.reason for each in left_out}


def points(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name. For a name that several packages offer: the project's own, else the first package."""
    return {point.name: point for point in reversed(_offered(group))}


def _offered(group: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points  # here, since commands import this module and ask for no entry points

    packages = functools.cache(_name)  # of 40 points in few packages; it parses the metadata
    return sorted(entry_points(group=group), key=lambda each: ((name := packages(each.dist)) != OWN, name, each.value))


def load(kind: str, group: str, make: Callable[[Any], T], contract: type, parts: Iterable[type] = ()) -> Found[T]:
    """Every extension of a group, made by ``make`` from the object that its entry point names.

    ``parts`` are contracts that hold only for an extension that has their first part.
    """
    usable: dict[str, T] = {}
    chosen = points(group)
    left_out = [_second(kind, point, chosen[point.name]) for point in _offered(group) if point != chosen[point.name]]
    for name, point in sorted(chosen.items()):
        made = one(kind, point, make, contract, parts)
        if isinstance(made, LeftOut):
            left_out.append(made)
        else:
            usable[name] = made
    return Found(usable, tuple(left_out))


def one(
    kind: str, point: EntryPoint, make: Callable[[Any], T], contract: type, parts: Iterable[type] = ()
) -> T | LeftOut:
    """The extension of one entry point; never raises for a fault of its package."""
    try:
        made = make(point.load())
        fault = next(faults(made, contract, parts), None)
    except (Exception, SystemExit) as error:  # a package of others: a module may raise anything, also at import
        fault = f"it cannot be loaded: {in_a_line(error)}"
    else:
        if fault is None:
            return made
    reason = f"{_package(point) or 'its package'}: {point.value}: {fault}"
    return LeftOut(kind, point.name, reason[:LONGEST_REASON])


def _second(kind: str, point: EntryPoint, first: EntryPoint) -> LeftOut:
    reason = f"{_package(point)}: {point.value}: package {_package(first)} offers this name too, and is used"
    return LeftOut(kind, point.name, reason[:LONGEST_REASON])


def in_a_line(error: BaseException) -> str:
    """An exception in one line, of bounded length; never raises.

    >>> in_a_line(ValueError("no zone\\nat all"))
    'ValueError: no zone at all'
    """
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    if text and isinstance(error, OcbError):
        return text[:LONGEST_REASON]
    return f"{type(error).__name__}: {text[:LONGEST_REASON]}" if text else type(error).__name__


def faults(made: object, contract: type, parts: Iterable[type] = ()) -> Iterator[str]:
    """The parts of the contract that an object lacks or has in another form, as sentences.

    >>> from typing import Protocol
    >>> class Sized(Protocol):
    ...     @property
    ...     def size(self) -> int: ...
    ...     def grow(self, by): ...
    >>> class Big:
    ...     size = "big"
    ...     def grow(self): ...
    >>> list(faults(Big(), Sized))
    ['`size` is no int', '`grow` is called as grow(by), and takes grow()']
    """
    for name, part in _parts(contract):
        yield from _faults(made, name, part)
    for optional in parts:
        wanted = list(_parts(optional))
        if hasattr(made, wanted[0][0]):
            for name, part in wanted:
                yield from _faults(made, name, part)


def _parts(contract: type) -> Iterator[tuple[str, Any]]:
    for name, part in vars(contract).items():
        public = not name.startswith("_") or name == "__call__"
        if public and (isinstance(part, property) or inspect.isfunction(part)):
            yield name, part


def _faults(made: object, name: str, part: Any) -> Iterator[str]:
    try:
        found = made if name == "__call__" else getattr(made, name)
    except AttributeError:
        yield f"it has no `{name}`"
        return
    if isinstance(part, property):
        wanted = get_type_hints(part.fget)["return"]
        try:
            msgspec.convert(found, wanted, strict=True)
        except msgspec.ValidationError:
            yield f"`{name}` is no {getattr(wanted, '__name__', wanted)}"
    elif not callable(found):
        yield f"`{name}` is no method"
    else:
        yield from _misfits(name, found, part)


def _misfits(name: str, found: Callable[..., Any], part: Callable[..., Any]) -> Iterator[str]:
    """A method that cannot be called with the arguments of the contract."""
    given = [each.name for each in inspect.signature(part).parameters.values()][1:]  # without self
    try:
        signature = inspect.signature(found)
    except ValueError:  # of a built-in function nothing is known
        return
    try:
        signature.bind(*given)
    except TypeError:
        bare = signature.replace(
            parameters=[each.replace(annotation=each.empty) for each in signature.parameters.values()],
            return_annotation=signature.empty,
        )
        yield f"`{name}` is called as {name}({', '.join(given)}), and takes {name}{bare}"


def _package(point: EntryPoint) -> str:
    return _name(point.dist)


def _name(package: Distribution | None) -> str:
    return package.name if package is not None else ""


def reasons(left_out: Mapping[str, str], kind: str, *names: str) -> Iterator[str]:
    """The reasons of a registration for extensions of these names."""
    yield from (left_out[key] for name in names if (key := title(kind, name)) in left_out)

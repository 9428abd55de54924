"""The installed ways to make images, as far as a configuration is checked against them.

Entry points of the group ``nodepool_ocb.backends`` name them; the builder calls their other parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NoReturn, Protocol, TypeVar

from nodepool_ocb import extensions
from nodepool_ocb.documents.suggest import did_you_mean
from nodepool_ocb.errors import Invalid
from nodepool_ocb.extensions import LeftOut
from nodepool_ocb.images.diskimages import Diskimage
from nodepool_ocb.model.records import Json

T = TypeVar("T")

KIND: Final = "backend"  # of extension
GROUP: Final = "nodepool_ocb.backends"


class OptionChecker(Protocol):
    """The part of a backend that a check needs."""

    @property
    def formats(self) -> tuple[str, ...] | None:
        """The formats that it can make; None: any format that the image's program makes."""

    def faults(self, options: Mapping[str, Json]) -> list[str]:
        """The faults in an image's ``options``, as sentences."""


class Unusable:
    """The replacement for a backend that is left out: its images are not built here; other builders may build them."""

    formats = None
    needs = ()

    def __init__(self, left_out: LeftOut) -> None:
        self.reason = f"{left_out.sentence}; correct its package, and install it anew"

    def faults(self, options: Mapping[str, Json]) -> list[str]:  # noqa: ARG002
        """No faults: a builder with this backend knows the options."""
        return []

    def command(self, task: object) -> NoReturn:  # noqa: ARG002
        """Raises Invalid: nothing is built."""
        raise Invalid(self.reason)


def checkers() -> tuple[Mapping[str, OptionChecker], tuple[LeftOut, ...]]:
    """Every backend that is installed, by name, and those that are left out; ``Unusable`` stands in for these."""
    found = extensions.load(KIND, GROUP, made, OptionChecker)
    return {**stand_ins(found.left_out), **found.usable}, found.left_out


def made(kind: Callable[[], T]) -> T:
    """A backend of the class that an entry point names."""
    return kind()


def stand_ins(left_out: Iterable[LeftOut]) -> dict[str, Unusable]:
    """By name."""
    return {each.name: Unusable(each) for each in left_out}


def check(
    images: Iterable[Diskimage], backends: Mapping[str, OptionChecker], file: str, line: Callable[[str], int]
) -> None:
    """Raises Invalid with every fault that the backends find in the diskimages of a file.

    ``line`` says where in it a path such as ``diskimages[NAME].options`` is.
    """
    found = [f"diskimages[{image.name}].{fault}" for image in images for fault in faults(image, backends)]
    problems = [f"{file}:{line(each.partition(': ')[0])}: {each}" for each in found]
    if problems:
        raise Invalid(problems)


def faults(image: Diskimage, backends: Mapping[str, OptionChecker]) -> list[str]:
    """The faults in an image's backend, options and formats, as ``key: sentence``. None if the backend's check raises."""
    backend = backends.get(image.backend)
    if backend is None:
        known = ", ".join(sorted(backends)) or "none"
        hint = did_you_mean(image.backend, backends)
        return [f"backend: there is no backend `{image.backend}`{hint}; installed here: {known}"]
    try:
        found = [f"options: {fault}" for fault in backend.faults(image.options)]
    except Exception:  # a foreign package: the other images are checked all the same, and the build shows the reason
        return []
    if backend.formats is not None:
        found += [
            f"formats: backend {image.backend} makes no {format}; it makes {', '.join(backend.formats)}"
            for format in image.formats
            if format not in backend.formats
        ]
    return found

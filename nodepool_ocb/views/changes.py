"""What a command changed, or would change, as people name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Change, Check, Create, Delete, Gate, Raise, Record
from nodepool_ocb.views.view import View

VERBS: Final = {"Create": "create", "Delete": "delete"}
KINDS: Final = {"NodeRole": "noderole", "DeploymentRole": "deployment role"}


class ChangeRow(View, frozen=True, kw_only=True):
    """One change."""

    change: str  # create, change or delete
    kind: str
    name: str
    state: str | None  # that it has then


class ChangesDocument(View, frozen=True, kw_only=True):
    """What a command changed; the last four where there is such a thing."""

    dry_run: bool
    changes: tuple[ChangeRow, ...]
    explanations: tuple[str, ...]
    warnings: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # of the documents that were imported
    problems: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET  # of the roles that were left out
    image: str | msgspec.UnsetType = msgspec.UNSET  # that is to be built
    request: int | msgspec.UnsetType = msgspec.UNSET  # its number


class OfWorld(Protocol):
    """Where a path is in the world (store.worldpaths)."""

    @property
    def kind(self) -> type[Record]: ...
    @property
    def name(self) -> str: ...
    @property
    def below(self) -> str: ...


Parse = Callable[[str], OfWorld | None]


def rows(changes: Iterable[Change], parse: Parse) -> tuple[ChangeRow, ...]:
    """Without what only keeps order: checks, fences, gates, the structure, empty znodes."""
    return tuple(row for change in changes if (row := _row(change, parse)) is not None)


def _row(change: Change, parse: Parse) -> ChangeRow | None:
    if isinstance(change, Check | Raise):
        return None
    data = None if isinstance(change, Delete) else change.data
    named = _of_image(change.path) or _of_world(change, data, parse(change.path))
    if named is None:
        return None
    state = getattr(data, "state", None) if isinstance(data, Record) else None
    verb = VERBS.get(type(change).__name__, "change")
    return ChangeRow(change=verb, kind=named[0], name=named[1], state=None if state is None else str(state))


def _of_world(change: Change, data: object, place: OfWorld | None) -> tuple[str, str] | None:
    """The kind and the name of what stands at a path below /ocb."""
    if (place is None and data is None) or isinstance(data, Gate):
        return None
    if place is None:
        return "attributes", _owner(change.path)
    kind = place.kind.__name__
    if kind == "Structure" or (kind in ("Fence", "Claim") and isinstance(change, Create | Delete)):
        return None
    names = {"NodeRole": f"{place.below}@{place.name}", "DeploymentRole": f"{place.below} in {place.name}"}
    return KINDS.get(kind, kind.lower()), names.get(kind, place.name)


def _owner(path: str) -> str:
    """Whose attributes stand at a path.

    >>> _owner("/ocb/nodes/n1.example.com/noderoles/ntp-client/user")
    'ntp-client@n1.example.com (user)'
    """
    match path.split("/")[2:]:
        case ["nodes", fqdn, "noderoles", role, layer]:
            return f"{paths.noderole_name(role, fqdn)} ({layer})"
    return path.removeprefix(paths.ROOT + "/")


def _of_image(path: str) -> tuple[str, str] | None:
    """The kind and the name of what stands at a path below an image.

    >>> _of_image("/nodepool/image/jammy/builds/0000000007/provider/west/images/0000000001")
    ('upload', 'jammy-0000000007 west 0000000001')
    """
    if not path.startswith(paths.IMAGES + "/"):
        return None
    match path.removeprefix(paths.IMAGES + "/").split("/"):
        case [image, "request-build"]:
            return "build request", image
        case [image, "pause"]:
            return "pause", image
        case [image, "builds", build]:
            return "build", f"{image}-{build}"
        case [image, "builds", build, "provider", provider, "images", upload]:
            return "upload", f"{image}-{build} {provider} {upload}"
    return None

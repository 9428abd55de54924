"""The tree of Nodepool 11: the dialect in which Nodepool's builder, launcher and command line store images.

Images are at ``/nodepool/images/IMAGE/builds/BUILD/providers/PROVIDER/images/UPLOAD``. A record has Nodepool's keys with
Nodepool's values, and the other keys of the native record beside them:

- ``state`` is ``deleting`` for the native ``delete``. A build in the native state ``aborted`` is ``failed`` for Nodepool, and
  ``ocb_state`` has the native state.
- ``formats`` is text with commas. A failed build has none; ``ocb_formats`` has them.
- ``username``, ``python_path`` and ``shell_type`` are always there. So are the ids, the name and the format of an upload, if
  only as null.
- ``pause`` and ``request-build`` are empty.

Nodepool replaces whole records, and drops each key that it does not know. So a record of Nodepool's keys alone is a whole
record here. Each native record with a path is read again as it was written, byte for byte: sessions find out by that
whether a transaction with a lost answer was applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal

import msgspec

from nodepool_ocb.model import paths
from nodepool_ocb.model.images import Build, BuildState, Upload, UploadState
from nodepool_ocb.model.records import Record
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.frames import Znode
from nodepool_ocb.store.client.tree import NATIVE, ImageTree

ROOT: Final = "/nodepool/images"
DELETING: Final = "deleting"
OWN_STATE: Final = "ocb_state"
OWN_FORMATS: Final = "ocb_formats"

_NATIVE_ROOT: Final = paths.IMAGES
_PROVIDERS_AT: Final = 6  # of the parts of a path, after the first "/": provider or providers
_BUILD: Final = re.compile(rf"{_NATIVE_ROOT}/([^/]+)/builds/([^/]*)")
_UPLOAD: Final = re.compile(rf"{_NATIVE_ROOT}/[^/]+/builds/[^/]+/provider/[^/]+/images/[^/]*")
_FLAG: Final = re.compile(rf"{_NATIVE_ROOT}/[^/]+/(?:pause|request-build)")
_LOCK: Final = "lock"

_FOR_BUILDS: Final = (
    "state",
    "state_time",
    "builder",
    "builder_id",
    "formats",
    "username",
    "python_path",
    "shell_type",
)
_FOR_UPLOADS: Final = (
    "state", "state_time", "external_id", "external_name", "format", "username", "python_path", "shell_type"
)  # fmt: skip
#: Nodepool writes these as null rather than leaving them out.
_NULLS: Final = frozenset({"external_id", "external_name", "format", "username", "python_path", "shell_type"})
#: Below /nodepool, and no concern of Nodepool's.
_CLOSED: Final = ("/nodepool/daemons", "/nodepool/clock")

Keys = dict[str, Any]


class Nodepool11Tree(ImageTree):
    """The layout of Nodepool 11."""

    foreign: ClassVar[bool] = True
    ids: ClassVar[re.Pattern[str]] = re.compile(r"[0-9]{10}|[0-9a-f]{32}")

    def stored(self, path: str) -> str:
        """As ``ImageTree.stored``.

        >>> Nodepool11Tree().stored("/nodepool/image/jammy/builds/0000000001/provider/west/images/lock")
        '/nodepool/images/jammy/builds/0000000001/providers/west/images/lock'
        """
        return _moved(path, _NATIVE_ROOT, ROOT, "provider", "providers")

    def native(self, path: str) -> str:
        """As ``ImageTree.native``."""
        return _moved(path, ROOT, _NATIVE_ROOT, "providers", "provider")

    def written(self, path: str, data: bytes) -> bytes:
        """As ``ImageTree.written``."""
        if _FLAG.fullmatch(path):
            return b""
        if not data or path.endswith(f"/{_LOCK}"):
            return data
        if _BUILD.fullmatch(path):
            return _encoded(_nodepools_build(_keys(data)))
        return _encoded(_nodepools(_keys(data), _FOR_UPLOADS)) if _UPLOAD.fullmatch(path) else data

    def read(self, znode: Znode) -> Znode:
        """As ``ImageTree.read``. Data that are no JSON object stay as they are: no reader can decode them."""
        path = znode.path
        if not znode.data or path.endswith(f"/{_LOCK}"):
            return znode
        build = _BUILD.fullmatch(path)
        if build is None and not _UPLOAD.fullmatch(path):
            return znode
        try:
            keys = _keys(znode.data)
        except msgspec.DecodeError:
            return znode
        if build is not None:
            native = _ordered(_native_build(keys, *build.groups()), Build)
        else:
            native = _ordered(_native_upload(keys), Upload)
        return msgspec.structs.replace(znode, data=_encoded(native))

    def open(self, path: str) -> bool:
        """As ``ImageTree.open``: all but the registrations of our daemons, and our clock."""
        ours = any(path == closed or path.startswith(f"{closed}/") for closed in _CLOSED)
        return not ours and (path == "/nodepool" or path.startswith("/nodepool/"))


def tree(layout: Literal["native", "nodepool"]) -> ImageTree:
    """The tree of the setting ``layout``."""
    return Nodepool11Tree() if layout == "nodepool" else NATIVE


# -- paths --


def _moved(path: str, old: str, new: str, old_folder: str, new_folder: str) -> str:
    if path != old and not path.startswith(f"{old}/"):
        return path
    parts = path.split("/")
    parts[2] = new.rpartition("/")[2]
    if len(parts) > _PROVIDERS_AT and parts[_PROVIDERS_AT] == old_folder:
        parts[_PROVIDERS_AT] = new_folder
    return "/".join(parts)


# -- records --


def _keys(data: bytes) -> Keys:
    """Raises DecodeError."""
    return msgspec.json.decode(data, type=dict[str, Any])


def _encoded(keys: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(keys)


def _nodepools_build(keys: Keys) -> Keys:
    state, formats = keys.get("state"), keys.get("formats")
    if state == BuildState.ABORTED:
        _respell(keys, BuildState.FAILED)
        keys[OWN_STATE] = state
    if formats is not None:
        del keys["formats"]
        if keys["state"] == BuildState.FAILED or _split(",".join(formats)) != formats:
            keys[OWN_FORMATS] = formats
        if keys["state"] != BuildState.FAILED:
            keys["formats"] = ",".join(formats)
    for name in ("builder", "builder_id"):
        if keys.get(name) == "":
            del keys[name]
    return _nodepools(keys, _FOR_BUILDS)


def _nodepools(keys: Keys, first: tuple[str, ...]) -> Keys:
    """Nodepool's keys in its order, then the others."""
    if keys.get("state") in (BuildState.DELETE, UploadState.DELETE):
        _respell(keys, DELETING)
    if keys.get("format") == "":
        keys["format"] = None
    own = {name: keys.get(name) for name in first if name in keys or name in _NULLS}
    return own | {name: value for name, value in keys.items() if name not in own}


def _native_build(keys: Keys, image: str, build: str) -> Keys:
    state, formats = keys.pop(OWN_STATE, None), keys.pop(OWN_FORMATS, None)
    native = _native(keys)
    if keys.get("state") == BuildState.FAILED and state == BuildState.ABORTED:
        _respell(native, state)
    text = native.get("formats")
    if isinstance(text, str):
        native["formats"] = (
            formats if isinstance(formats, list) and ",".join(map(str, formats)) == text else _split(text)
        )
    elif text is None and formats is not None:
        native["formats"] = formats
    if native.get("formats") == []:
        del native["formats"]
    native["builder"] = native.get("builder", "")
    identity = native.get("builder_id", "")
    native["builder_id"] = identity.strip() if isinstance(identity, str) else identity  # it may end with a line feed
    native.setdefault("filename", f"{image}-{build}" if build else "")
    return native


def _native_upload(keys: Keys) -> Keys:
    native = _native(keys)
    native.setdefault("format", "")  # Nodepool stores it at the end of the upload
    return native


def _native(keys: Keys) -> Keys:
    native = {name: value for name, value in keys.items() if value is not None}
    if native.get("state") == DELETING:
        _respell(native, BuildState.DELETE)
    return native


def _respell(keys: Keys, state: str) -> None:
    """The same state in the words of the other product."""
    keys["state"] = str(state)


def _ordered(keys: Keys, kind: type[Record]) -> Keys:
    """The keys as ``codec`` writes them: schema, signature, fields, and other keys."""
    first = ["schema", "tx", *codec.fields(kind)]
    known = {"schema": 1} | {name: keys[name] for name in first if name in keys}
    return known | keys


def _split(text: str) -> list[str]:
    return [each for each in text.split(",") if each]

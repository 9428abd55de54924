"""Documents: files of YAML as plain JSON values, each with the line that it came from, and checks with sentences.

plainyaml defines the accepted YAML; files are at most BYTES long. All faults of a document are reported together:
``FILE:LINE: path.to.key: sentence``. A fault of the YAML syntax ends the reading: faults after it are not found.
"""

from __future__ import annotations

import errno
import grp
import pwd
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from nodepool_ocb.documents import files
from nodepool_ocb.documents.plainyaml import NODES, Fault, Key, ParsedYaml, parse, parse_all
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model.records import Json

BYTES: Final = 1 << 20
#: Keys with secret values, and words in texts that may hold such a value by mistake.
SECRET: Final = re.compile("pass|secret|token|credential|private", re.IGNORECASE)


class Bounds(msgspec.Struct, frozen=True):
    """How large a file may be."""

    bytes: int = BYTES
    nodes: int = NODES  # values, aliases and merge keys counted


USUAL: Final = Bounds()


class Document(msgspec.Struct, frozen=True, dict=True):
    """The contents of a file: its ``value``, and the line (from 1) of every key and item of it."""

    name: str
    value: Json
    lines: tuple[tuple[Key, int], ...]
    warnings: tuple[str, ...] = ()  # of a document that was read leniently

    def line(self, key: Sequence[str | int]) -> int:
        """The line of a key, or of the nearest key above it (below an alias, that of the alias)."""
        key, lines = tuple(key), self._line_of
        if (own := lines.get(key)) is not None:
            return own
        return next((lines[key[:end]] for end in range(len(key), -1, -1) if key[:end] in lines), 1)

    @cached_property
    def _line_of(self) -> dict[Key, int]:
        return dict(self.lines)

    def path(self, key: Sequence[str | int]) -> str:
        """A key as people read it: list items by their name, or their id, where they have one.

        >>> Document("f", {"roles": [{"name": "ntp", "flags": []}]}, ()).path(["roles", 0, "flags"])
        'roles[ntp].flags'
        >>> Document("f", [{"id": "netconfig", "role": 1}], ()).path([0, "role"])
        'netconfig.role'
        """
        names = [step for step in key if isinstance(step, str) and step]
        if len(names) == len(key):
            return ".".join(names)
        value, text = self.value, ""
        for step in key:
            value = value[step]
            if isinstance(step, str):
                text += f".{step}" if text else step
            else:
                name = value.get("name", value.get("id")) if isinstance(value, dict) else None
                one_line = isinstance(name, str) and name.splitlines() == [name]
                text += str(name) if one_line and not text else f"[{name if one_line else step}]"
        return text

    def fault(self, key: Sequence[str | int], text: str) -> str:
        """A problem or a warning about a key: ``FILE:LINE: PATH: sentence``."""
        return Fault(self.line(key), text, self.path(key)).at(self.name)


def load(source: Path | str, name: str | None = None, *, lenient: bool = False) -> Document:
    """The document in a file, or in text when its ``name`` is given.

    Raises Invalid with every fault that was found; a document that is no YAML has one. ``lenient``: harmless faults,
    such as a key that occurs twice with one value, are among its ``warnings``.
    """
    text, name = _read(source, name)
    return _documents([parse(text)], name, text, lenient)[0]


def load_what_can_be_read(path: Path) -> tuple[Document, list[Fault]]:
    """A file, read leniently, without its faulty entries; and these faults, each with its key.

    A fault of the whole, such as one of YAML, has the key (). Raises Invalid for a file that cannot be read or is too
    large.
    """
    text, name = _read(path, None)
    parsed = parse(text)
    (document,) = _documents([replace(parsed, faults=[])], name, text, lenient=True)
    return document, [_discreet(fault, text) for fault in parsed.faults]


def load_all_that_can_be_read(text: str, name: str, last: bool = False) -> list[tuple[Document, list[Fault]]]:
    """Every document of a text, empty ones too, as ``load_what_can_be_read`` gives the one of a file.

    ``last``: of a key that is there twice the last value counts, with a warning. Raises Invalid for a text that is too large.
    """
    parsed = parse_all(_read(text, name)[0], last)
    documents = _documents([replace(each, faults=[]) for each in parsed], name, text, lenient=True)
    faults = ([_discreet(fault, text) for fault in each.faults] for each in parsed)
    return list(zip(documents, faults, strict=True))


def load_all(
    source: Path | str, name: str | None = None, *, lenient: bool = False, most: Bounds = USUAL
) -> list[Document]:
    """Every document in a file, or in text when its ``name`` is given; those that are empty are left out.

    Raises Invalid with every fault of all of them; ``lenient`` as in ``load``.
    """
    text, name = _read(source, name, most.bytes)
    found = _documents(parse_all(text, nodes=most.nodes), name, text, lenient)
    return [document for document in found if document.value is not None]


def _guarded(path: Path, error: OSError) -> str:
    """The next step, as the end of a sentence; of a file that this user may not read with the owner, the group and the mode."""
    if error.errno != errno.EACCES:
        return "; check the path"
    try:
        found = path.stat()
        names = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except (OSError, KeyError):
        return "; let this user enter its directory"
    return f"; let this user read it: its owner is {names[0]}, its group {names[1]}, its mode {found.st_mode & 0o777:o}"


def read(path: Path, most: int = BYTES) -> str:
    """The text of a file; raises Invalid if it cannot be read or is not UTF-8."""
    try:
        data = files.read(path, most)
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}{_guarded(path, error)}") from error
    try:
        return data.decode("utf-8-sig") if len(data) <= most else " " * (most + 1)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{path}:{line}: is not UTF-8; save it as UTF-8") from error


def _read(source: Path | str, name: str | None, most: int = BYTES) -> tuple[str, str]:
    """The text, no longer than ``most`` bytes, and its name."""
    text = source if isinstance(source, str) and name is not None else read(Path(source), most)
    name = name or str(Path(source))
    if len(text.encode("utf-8", "surrogatepass")) > most:
        raise Invalid(f"{name}: is larger than {most >> 20} MiB; split it into several documents")
    return text, name


def _documents(parsed: Sequence[ParsedYaml], name: str, text: str, lenient: bool) -> list[Document]:
    faults = (fault for each in parsed for fault in (each.faults if lenient else [*each.faults, *each.warnings]))
    problems = [_discreet(fault, text).at(name) for fault in faults]
    if problems:
        raise Invalid(problems)
    return [
        Document(name, each.value, tuple(each.lines.items()), tuple(warning.at(name) for warning in each.warnings))
        for each in parsed
    ]


def _discreet(fault: Fault, text: str) -> Fault:
    """The fault without text that may be a secret. YAML takes a password that begins with * for the name of an alias."""
    if not fault.text.startswith(("alias", "tag", "is not YAML")):
        return fault
    *above, line = text.split("\n")[max(0, fault.line - 2) : fault.line] or [""]
    below_its_key = [each for each in above if each.rstrip().endswith(":")]
    secret = any(map(SECRET.search, (fault.path, line, *below_its_key)))
    return replace(fault, text="is not YAML as it stands; quote the value") if secret else fault

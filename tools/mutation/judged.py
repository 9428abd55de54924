"""Mutants that survive and may: each with the reason why no test can, or need, tell it from the product."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from mutation.mutant import Mutant


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of them, by what stays the same while other code comes and goes."""

    file: str
    function: str
    change: str  # lines that begin with - and with +
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.function, _trimmed(self.change)


class Judgement(msgspec.Struct, frozen=True):
    """What a person has said about mutants."""

    entries: tuple[Judged, ...] = ()

    def reason(self, mutant: Mutant) -> str | None:
        """Why it may survive; None where nobody has judged it."""
        key = (mutant.file, mutant.function, _trimmed(mutant.change))
        return next((entry.reason for entry in self.entries if entry.key == key), None)

    def idle(self, root: Path, files: Iterable[str]) -> list[Judged]:
        """Entries of these files whose code is not there any more."""
        texts = {file: _trimmed((root / file).read_text()) for file in files}
        return [entry for entry in self.entries if entry.file in texts and not _stands(entry, texts[entry.file])]


def read(file: Path) -> Judgement:
    """Raises msgspec.ValidationError where an entry is not one."""
    return Judgement(msgspec.convert(yaml.safe_load(file.read_text()) or [], type=tuple[Judged, ...]))


def _stands(entry: Judged, text: str) -> bool:
    removed = "\n".join(line[1:].strip() for line in entry.change.splitlines() if line.startswith("-"))
    return removed in text


def _trimmed(text: str) -> str:
    """Without the room before each line, which a diff in a document has not."""
    return "\n".join(
        line[:1] + line[1:].strip() if line[:1] in ("-", "+") else line.strip() for line in text.strip().splitlines()
    )

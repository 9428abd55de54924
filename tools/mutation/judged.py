"""Mutants that survive and may: each with the reason why no test can, or need, tell it from the product."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from mutation.mutant import Mutant


class Judged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant, identified by properties that do not depend on other code."""

    file: str
    function: str
    change: str  # lines that begin with - and with +
    reason: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.function, _trimmed(self.change)


class Judgement(msgspec.Struct, frozen=True):
    """The judgement of a person about mutants."""

    entries: tuple[Judged, ...] = ()

    def reason(self, mutant: Mutant) -> str | None:
        """The reason why it may survive; None without a judgement."""
        key = (mutant.file, mutant.function, _trimmed(mutant.change))
        return next((entry.reason for entry in self.entries if entry.key == key), None)

    def idle(self, root: Path, files: Iterable[str]) -> list[Judged]:
        """Entries of these files for code that is gone."""
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

"""The files of a task list as values. The caller reads them, from directories of its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import layers
from nodepool_ocb.tasks.layers import TaskListLayer


class ListFiles(msgspec.Struct, frozen=True):
    """The files of a list."""

    texts: Mapping[str, str]  # by the paths below the root of the list
    places: Mapping[str, str] = {}  # path → the name of the file in messages, if that differs
    warnings: tuple[str, ...] = ()  # about files that were left out

    def layer(self, origin: str = "") -> TaskListLayer:
        """The list, with the names of messages."""
        return TaskListLayer({self.places.get(name, name): text for name, text in self.texts.items()}, origin)


def read(sources: Sequence[str | Path]) -> ListFiles:
    """The files of a list.

    Of several directories each path begins with the directory's name. Raises NotFound and Invalid.
    """
    from nodepool_ocb.tasks import reading

    texts: dict[str, str] = {}
    warnings: list[str] = []
    for source in map(Path, sources):
        found = reading.files(source)
        prefix = f"{source.resolve().name}/" if len(sources) > 1 and source.is_dir() else ""
        for name, text in found.texts.items():
            if f"{prefix}{name}" in texts:
                raise Invalid(f"{source}: another file is called {prefix}{name}, too; give the directory of both")
            texts[f"{prefix}{name}"] = text
        warnings += found.warnings
    return ListFiles(texts, _places(sources, texts), tuple(warnings))


def _places(sources: Sequence[str | Path], texts: Mapping[str, str]) -> dict[str, str]:
    """The files of one file or directory, by the paths that messages name."""
    if len(sources) != 1:
        return {}
    if Path(sources[0]).is_dir():
        return dict(zip(texts, layers.named(str(sources[0]), texts), strict=True))
    return {name: str(sources[0]) for name in texts}

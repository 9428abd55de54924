"""A picture on a terminal that changes: in its place, or over all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from nodepool_ocb.cli.kit import output
from nodepool_ocb.telemetry.terminal_escape import visible


def lively(file: Any) -> bool:
    """Whether a picture can change there: it is a terminal, and one that can move its cursor."""
    return bool(file.isatty()) and os.environ.get("TERM") not in (None, "", "dumb", "unknown")


class _Picture:
    """Rich's, from when it is entered; ``whole``: it takes the whole terminal, and gives it back as it was."""

    def __init__(self, file: Any, *, whole: bool) -> None:
        self._file = file
        self._whole = whole
        self._stack = ExitStack()

    def __enter__(self) -> Any:
        from rich.live import Live as Picture  # here, since rich takes long to import

        made = Picture(
            console=output.console(self._file), transient=not self._whole, auto_refresh=False, screen=self._whole
        )
        self._live = self._stack.enter_context(made)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class Live(_Picture):
    """Each picture is shown in place of the one before, and the last goes at the end."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, whole=False)

    @property
    def width(self) -> int:
        """The width of the terminal, in characters."""
        return int(self._live.console.width)

    def show(self, *parts: Any) -> None:
        """One below the other: lines, which are cut to the width, and tables of ``output.picture``."""
        from rich.console import Group
        from rich.text import Text

        lines = (
            Text(visible(part), no_wrap=True, overflow="ellipsis") if isinstance(part, str) else part for part in parts
        )
        self._live.update(Group(*lines), refresh=True)


class Screen(_Picture):
    """The whole terminal, until the end; then it is as it was."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, whole=True)
        self._shown: tuple[int, int] | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the terminal as it is now, in characters."""
        size = self._live.console.size
        return size.width, size.height

    @property
    def resized(self) -> bool:
        """Whether it has another size than the picture that is there."""
        return self.size != self._shown

    def show(self, lines: Sequence[Any]) -> None:
        """Lines that fit into it."""
        from rich.console import Group

        self._shown = self.size
        self._live.update(Group(*lines), refresh=True)

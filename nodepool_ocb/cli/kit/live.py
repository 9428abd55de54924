"""A picture on a terminal that changes in its place."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from nodepool_ocb.cli.kit import output


class Live:
    """Each picture is shown in place of the one before, and the last goes at the end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stack = ExitStack()

    def __enter__(self) -> Live:
        from rich.live import Live as Picture  # here, since rich takes long to import

        console = output.console(self._file)
        self._live = self._stack.enter_context(Picture(console=console, transient=True, auto_refresh=False))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def width(self) -> int:
        """Of the terminal, in characters."""
        return self._live.console.width

    def show(self, *parts: Any) -> None:
        """One below the other: texts, and tables of ``output.picture``."""
        from rich.console import Group

        self._live.update(Group(*parts), refresh=True)

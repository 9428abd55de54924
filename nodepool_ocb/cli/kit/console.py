"""Rich's console, from which no control sequence gets out but rich's own."""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.segment import Segment

from nodepool_ocb.telemetry.terminal_escape import visible


class Console(console.Console):
    """Shows the control characters of all texts; widths are right where a text was shown before it came here."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(visible(segment.text), segment.style) for segment in buffer
        )

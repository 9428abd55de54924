"""Commands that run beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable

from click.testing import Result


class Later:
    """A command that runs beside the test."""

    def __init__(self, call: Callable[[], Result]) -> None:
        self._results: list[Result] = []
        self._thread = threading.Thread(target=lambda: self._results.append(call()), daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return bool(self._results)

    def result(self, timeout_seconds: float = 10.0) -> Result:
        self._thread.join(timeout_seconds)
        assert self._results, "it did not end"
        return self._results[0]

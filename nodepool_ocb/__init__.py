"""The parts that annealers, builders and the command line share. ARCHITECTURE.md has the folders and their order.

Ctrl-C ends a program of ours without a traceback, also while its modules load.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


def _without_interrupts(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt) or os.environ.get("NODEPOOL_OCB_DEBUG"):
        sys.__excepthook__(kind, error, trace)


if os.path.basename(sys.argv[0]).startswith("nodepool-ocb"):  # another program keeps its own hook
    sys.excepthook = _without_interrupts

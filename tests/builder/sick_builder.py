"""A builder whose turns fail while the file SICK_FILE is there: python sick_builder.py ..."""

from __future__ import annotations

import os
from pathlib import Path

from nodepool_ocb_builder.builder import Builder
from nodepool_ocb_builder.main import main


def watch() -> None:
    """Let turns fail from now on."""
    count = Builder._count

    def counting(builder: Builder) -> None:
        if Path(os.environ["SICK_FILE"]).exists():
            raise OSError("no room at all")
        count(builder)

    Builder._count = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    watch()
    main()

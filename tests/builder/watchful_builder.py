"""A builder that looks more often whether its files have changed: python watchful_builder.py ..."""

from __future__ import annotations

from nodepool_ocb.daemon.changed import ChangedFiles
from nodepool_ocb_builder.main import main

LOOK_SECONDS = 0.4

if __name__ == "__main__":
    ChangedFiles.__init__.__defaults__ = (LOOK_SECONDS,)  # type: ignore[attr-defined]
    main()

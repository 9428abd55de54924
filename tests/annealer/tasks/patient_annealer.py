"""An annealer that reads the history of a run of tasks two records at a time."""

from __future__ import annotations

from nodepool_ocb_annealer.main import main
from nodepool_ocb_annealer.tasks import taskruns

if __name__ == "__main__":
    taskruns.READ_AT_ONCE = 2  # type: ignore[misc]
    main()

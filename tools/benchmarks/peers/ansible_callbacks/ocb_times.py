"""A callback of Ansible: when each task began and ended on each machine, in seconds since the play began.

It writes {"seconds": of the whole play, "steps": {machine: [[begin, end]]}} to the file that $OCB_TIMES names.
"""

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: ocb_times
type: aggregate
short_description: times of tasks
description: Writes when each task began and ended.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Ansible looks for this name."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "ocb_times"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._zero = time.perf_counter()
        self._began: dict[str, float] = {}
        self._steps: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    def _now(self) -> float:
        return time.perf_counter() - self._zero

    def v2_playbook_on_play_start(self, play: Any) -> None:  # noqa: ARG002
        self._zero = time.perf_counter()

    def v2_runner_on_start(self, host: Any, task: Any) -> None:  # noqa: ARG002
        self._began[host.name] = self._now()

    def v2_runner_on_ok(self, result: Any) -> None:
        host = getattr(result, "host", None) or result._host
        self._steps[host.name].append((self._began[host.name], self._now()))

    def v2_playbook_on_stats(self, stats: Any) -> None:  # noqa: ARG002
        Path(os.environ["OCB_TIMES"]).write_text(json.dumps({"seconds": self._now(), "steps": self._steps}))

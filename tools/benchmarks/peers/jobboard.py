"""TaskFlow: a job is posted to its ZooKeeper jobboard, and its conductor, which was idle, claims it.

In: {"hosts": ..., "jobs": how many}. Out: {"seconds": the median from the end of post to the end of claim}.
"""

import json
import statistics
import sys
import threading
import time
from typing import Any

from taskflow import engines, task
from taskflow.conductors import backends as conductors
from taskflow.jobs import backends as jobboards
from taskflow.jobs.base import Job
from taskflow.patterns import linear_flow
from taskflow.persistence import backends as stores
from taskflow.persistence import models
from taskflow.utils import persistence_utils


class Nothing(task.Task):  # type: ignore[misc]
    """The work of every job."""

    def execute(self) -> None:
        """No more than noop."""


def make_flow() -> linear_flow.Flow:
    return linear_flow.Flow("job").add(Nothing())


def main() -> None:
    order = json.load(sys.stdin)
    store = stores.fetch({"connection": "memory"})
    store.get_connection().upgrade()
    configuration = {"board": "zookeeper", "hosts": [order["hosts"]], "path": "/taskflow-bench"}
    with (
        jobboards.backend("poster", dict(configuration), persistence=store) as poster,
        jobboards.backend("taker", dict(configuration), persistence=store) as taker,
    ):
        claims = Claims(taker)
        conductor = conductors.fetch("blocking", "taker", taker, persistence=store, engine="serial")
        threading.Thread(target=conductor.run, daemon=True).start()
        waited = []
        for number in range(order["jobs"]):
            time.sleep(0.6 + number % 7 * 0.07)  # idle, and not in step with it
            waited.append(post(poster, store, f"job-{number}", claims))
        conductor.stop()
        conductor.wait(5.0)
    print(json.dumps({"seconds": statistics.median(waited)}))


class Claims:
    """Notes when the conductor's board has a claim."""

    def __init__(self, board: Any) -> None:
        self._claim = board.claim
        self.claimed = threading.Event()
        self.when = 0.0
        board.claim = self.claim

    def claim(self, job: Job, who: str) -> None:
        self._claim(job, who)
        self.when = time.perf_counter()
        self.claimed.set()


def post(board: Any, store: Any, name: str, claims: Claims) -> float:
    """Seconds until it is claimed."""
    book, detail = models.LogBook(name), models.FlowDetail(name, persistence_utils.uuidutils.generate_uuid())
    book.add(detail)
    engines.save_factory_details(detail, make_flow, [], {}, backend=None)
    store.get_connection().save_logbook(book)
    claims.claimed.clear()
    board.post(name, book=book, details={"flow_uuid": detail.uuid})
    posted = time.perf_counter()
    if not claims.claimed.wait(10.0):
        sys.exit(f"{name} was not claimed")
    return max(claims.when - posted, 0.0)


if __name__ == "__main__":
    main()

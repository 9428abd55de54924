"""The metrics of a daemon, for Prometheus; docs/metrics.md is generated from this file.

Counters are bumped after the commit that they tell of, never before. Names carry their unit; labels have few
values (a node or a noderole is never one).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

# A second series for each counter, which is not needed.
disable_created_metrics()  # type: ignore[no-untyped-call]

_FAST: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_LONG: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

# -- the loop --
TURNS: Final = Counter("nodepool_ocb_turns", "Turns of the daemon's loop.")
TURN_FAILURES: Final = Counter("nodepool_ocb_turn_failures", "Turns that raised; each is in the log.")
TURN_SECONDS: Final = Histogram("nodepool_ocb_turn_seconds", "How long a turn took.", buckets=_FAST)

# -- work --
TRANSITIONS: Final = Counter("nodepool_ocb_transitions", "Events committed to noderoles.", ["event"])
NODEROLES: Final = Gauge("nodepool_ocb_noderoles", "Noderoles as this daemon's cache has them.", ["state"])
DRIFT: Final = Gauge("nodepool_ocb_noderoles_drift", "Noderoles by the result of their newest check.", ["drift"])
STRANGE_DHCP_SERVERS: Final = Gauge(
    "nodepool_ocb_strange_dhcp_servers", "Servers of DHCP that are not ours, as admin nodes heard them last."
)
CHECKS_ASKED: Final = Counter(
    "nodepool_ocb_checks_asked", "Checks, and reruns of drifted noderoles, that schedules requested."
)
SLOTS: Final = Gauge("nodepool_ocb_slots", "How many jigs this annealer may run at once.")
SLOTS_BUSY: Final = Gauge("nodepool_ocb_slots_busy", "How many jigs it runs now.")
RUNS: Final = Counter("nodepool_ocb_runs", "Runs that ended.", ["jig", "outcome"])
RUN_SECONDS: Final = Histogram("nodepool_ocb_run_seconds", "How long a run took.", ["jig"], buckets=_LONG)
HOST_FAULTS: Final = Counter(
    "nodepool_ocb_host_faults", "Nodes left to other annealers because this host failed while it worked on them."
)
FORBIDDEN_FILES: Final = Counter(
    "nodepool_ocb_forbidden_files",
    "Refusals to read a file of this host that a task or an attribute names, by the setting that does not allow it.",
    ["setting"],
)
RUN_LOG_FAILURES: Final = Counter(
    "nodepool_ocb_run_log_failures", "Runs without a log file, because their output could not be written."
)
TAKEOVERS: Final = Counter("nodepool_ocb_takeovers", "Runs taken over from an annealer that died or let go.")
HOOK_SECONDS: Final = Histogram("nodepool_ocb_hook_seconds", "How long a hook took.", ["hook"], buckets=_FAST)
HOOK_FAILURES: Final = Counter("nodepool_ocb_hook_failures", "Hooks that raised.", ["hook"])
PROBES: Final = Counter("nodepool_ocb_probes", "Probes of machines.", ["outcome"])
PROBE_FAILURES: Final = Counter("nodepool_ocb_probe_failures", "Probes that failed, by step.", ["step"])

# -- rollouts --
ROLLOUTS_DRIVEN: Final = Gauge("nodepool_ocb_rollouts_driven", "Rollouts that this annealer drives.")
ROLLOUT_WRITES: Final = Counter("nodepool_ocb_rollout_writes", "Transactions that took a rollout on.")
TASK_RUNS_DRIVEN: Final = Gauge("nodepool_ocb_task_runs_driven", "Runs of tasks that this annealer drives.")
TASK_RUN_WRITES: Final = Counter("nodepool_ocb_task_run_writes", "Transactions that took a run of tasks on.")
TASK_RUN_STEP_SECONDS: Final = Histogram("nodepool_ocb_task_run_step_seconds", "One look at a run of tasks.")
ROLLOUT_STEP_SECONDS: Final = Histogram(
    "nodepool_ocb_rollout_step_seconds", "Time to decide the next step of a rollout.", buckets=_FAST
)

# -- the webhook --
WEBHOOK_ENTRIES: Final = Counter("nodepool_ocb_webhook_entries", "Entries of the journal that a receiver took.")
WEBHOOK_MISSED: Final = Counter(
    "nodepool_ocb_webhook_missed", "Entries passed over: deleted before they were sent, or unreadable."
)
WEBHOOK_FAILURES: Final = Counter("nodepool_ocb_webhook_failures", "Attempts to send entries that failed.")
WEBHOOK_LAG: Final = Gauge(
    "nodepool_ocb_webhook_lag", "Entries that were there and not sent, at the newest attempt; 0 where others send."
)

# -- images --
BUILDS: Final = Counter("nodepool_ocb_builds", "Builds that ended here.", ["outcome"])
BUILD_SECONDS: Final = Histogram("nodepool_ocb_build_seconds", "How long a build took.", buckets=_LONG)
BUILDS_BUSY: Final = Gauge("nodepool_ocb_builds_busy", "Builds under way here.")
UPLOADS: Final = Counter("nodepool_ocb_uploads", "Uploads that ended here.", ["outcome"])
UPLOAD_SECONDS: Final = Histogram("nodepool_ocb_upload_seconds", "How long an upload took.", buckets=_LONG)
UPLOADS_BUSY: Final = Gauge("nodepool_ocb_uploads_busy", "Uploads under way here.")

# -- pools --
API_REQUESTS: Final = Counter("nodepool_ocb_api_requests", "Requests that this server of the API answered.", ["status"])
API_SECONDS: Final = Histogram("nodepool_ocb_api_seconds", "How long the answer of a request took.", buckets=_FAST)
API_CONNECTIONS: Final = Gauge("nodepool_ocb_api_connections", "Open connections to this server of the API.")
API_REFUSED_CONNECTIONS: Final = Counter(
    "nodepool_ocb_api_refused_connections",
    "Connections that were closed, or for which an idle one was closed, for there were too many.",
)

REQUESTS: Final = Gauge("nodepool_ocb_requests", "Requests for nodes, as this launcher's cache has them.", ["state"])
POOL_NODES: Final = Gauge("nodepool_ocb_pool_nodes", "Nodes of pools, as this launcher's cache has them.", ["state"])
REQUESTS_ENDED: Final = Counter("nodepool_ocb_requests_ended", "Requests that this launcher ended.", ["outcome"])
REQUEST_SECONDS: Final = Histogram(
    "nodepool_ocb_request_seconds", "From a request to the hand-out of its nodes here.", buckets=(*_FAST, 300, 1800)
)
LAUNCHES: Final = Counter("nodepool_ocb_launches", "Launches that ended here.", ["provider", "outcome"])
LAUNCH_SECONDS: Final = Histogram(
    "nodepool_ocb_launch_seconds", "From the record of a node to ready.", ["provider"], buckets=_LONG
)
MACHINES_DELETED: Final = Counter("nodepool_ocb_machines_deleted", "Machines deleted here.", ["provider"])
MACHINES_LEAKED: Final = Counter(
    "nodepool_ocb_machines_leaked", "Machines without a record, deleted here.", ["provider"]
)
IMAGE_BUILDS_READY: Final = Gauge("nodepool_ocb_image_builds_ready", "Ready builds of an image, anywhere.", ["image"])
IMAGE_BUILDS_FAILED: Final = Gauge(
    "nodepool_ocb_image_builds_failed", "Failed builds of an image, of those with a kept record.", ["image"]
)
LEAKS: Final = Counter("nodepool_ocb_leaks", "Uploads that no record named, deleted at their providers.")
WORK_FAILURES: Final = Counter("nodepool_ocb_work_failures", "Work on a thread that raised; each is in the log.")

# -- ZooKeeper --
STALE: Final = Counter("nodepool_ocb_zookeeper_stale", "Transactions refused: another client wrote first.")
SWEEPS: Final = Counter("nodepool_ocb_sweeps", "Sweeps: reads of everything, in case a watch was missed.")
QUARANTINED: Final = Gauge("nodepool_ocb_quarantined", "Znodes that cannot be decoded.")

#: The counters of a session: attribute → meaning. The metric is ``nodepool_ocb_zookeeper_<attribute>``.
OF_SESSION: Final[Mapping[str, str]] = {
    "ambiguous": "Transactions with a lost answer; a new read shows their result.",
    "unresolved": "Those of them with a signature that reading could not settle; must stay 0.",
    "connections": "Connections made, the first one included.",
}

#: The same, for values that are not counted.
LARGEST_OF_SESSION: Final[Mapping[str, str]] = {
    "largest_bytes": "Size of the largest transaction sent; 512 KiB is refused, half of that aimed at.",
    "largest_changes": "Changes in the transaction with the most of them; above 500 is refused, 250 aimed at.",
}


class SessionCounts(Collector):
    """Serves the counts of a session; make it once, when the session is made."""

    def __init__(self, session: object) -> None:
        self._session = session
        REGISTRY.register(self)

    def collect(self) -> Iterator[Metric]:
        """The counts as they are now."""
        for name, meaning in OF_SESSION.items():
            value = getattr(self._session, name)
            yield CounterMetricFamily(f"nodepool_ocb_zookeeper_{name}", meaning, value=value)
        for name, meaning in LARGEST_OF_SESSION.items():
            yield GaugeMetricFamily(f"nodepool_ocb_zookeeper_{name}", meaning, value=getattr(self._session, name))

"""The requests of an idle launcher to ZooKeeper, with fifty labels at four providers: no writes, and almost no reads."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks import ensemble
from benchmarks.figure import Figure, Plan
from benchmarks.pools.requester import Requester
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import LAUNCHER, DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper import counters

LABELS: Final = 50
PROVIDERS: Final = 4
SECONDS: Final = 70.0  # two sweeps and more
READY_SECONDS: Final = 120.0
SWEEPS: Final = "nodepool_ocb_sweeps_total"


def measure(plan: Plan) -> Iterator[Figure]:
    """Writes, and requests a second without pings; each label has one ready node."""
    labels, seconds = plan.size(LABELS), plan.size(int(SECONDS), least=35)
    with ensemble.server() as server, tempfile.TemporaryDirectory(prefix="nodepool-ocb-bench-") as name:
        settings, folder = ensemble.settings(server), Path(name)
        (folder / "nodepool.yaml").write_text(yaml.safe_dump(document(folder, labels)))
        with DaemonProcess(_bootstrapped(settings), folder, {}, LAUNCHER) as process:
            with Session(settings) as session:
                Requester(session).await_free(labels, READY_SECONDS)
            sweeps = process.metric(SWEEPS)
            await_that(lambda: process.metric(SWEEPS) > sweeps, READY_SECONDS, "it rests", alive=process.running)
            writes, requests, cpu = counters.transactions(server), counters.requests(server), process.cpu_seconds
            time.sleep(seconds)
            writes = counters.transactions(server) - writes
            requests = counters.requests(server) - requests
            cpu = process.cpu_seconds - cpu
    what = f"an idle launcher with {labels} labels at {PROVIDERS} providers, {seconds} s"
    yield Figure(
        name="rest", what=f"{what}: writes", unit="writes", ours=writes, ratio=writes, bound="at most", target=0
    )
    yield Figure(
        name="rest",
        what=f"{what}: requests",
        unit="requests/s",
        ours=requests / seconds,
        ratio=requests / seconds,
        bound="at most",
        target=1.0,
        note=f"pings and sweeps included; {cpu / seconds:.2%} of a core",
    )


def document(folder: Path, labels: int) -> dict[str, Any]:
    """A nodepool.yaml: each provider offers each label, and one node of each label is to be ready."""
    names = [f"label-{number}" for number in range(labels)]
    offered = [{"name": name, "cloud-image": "debian"} for name in names]
    providers = [
        {
            "name": f"cloud-{number}",
            "driver": "fake",
            "fake-cloud": {"directory": str(folder / f"cloud-{number}")},
            "cloud-images": [{"name": "debian", "username": "root"}],
            "pools": [{"name": "main", "labels": offered}],
        }
        for number in range(PROVIDERS)
    ]
    return {"labels": [{"name": name, "min-ready": 1} for name in names], "providers": providers}


def _bootstrapped(settings: ZooKeeperSettings) -> ZooKeeperSettings:
    """The same settings; there is a cluster."""
    with Session(settings) as session:
        clusters.bootstrap(session)
    return settings

"""What a builder may cost, as the server counts it; how fast it is, as a bound that Nodepool's misses by far."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.model.images import UploadState
from nodepool_ocb.testing.zookeeper.counters import requests, transactions
from nodepool_ocb.testing.zookeeper.server import Server
from tests.builder.fleet_of_builders import BuilderFleet

PROVIDERS = 4


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[BuilderFleet]:
    """A fleet on a server that nobody else asks anything."""
    with Server(fsync=False) as server, BuilderFleet(server, "/economy", tmp_path) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("count", [8, pytest.param(30, marks=pytest.mark.long)])
def test_images_at_four_providers_are_uploaded_quickly_and_cost_nothing_then(alone: BuilderFleet, count: int) -> None:
    names = [f"image-{number}" for number in range(count)]
    providers = [alone.provider(f"cloud-{number}", *names) for number in range(PROVIDERS)]
    paused = [{**provider, "diskimages": [{"name": name, "pause": True} for name in names]} for provider in providers]
    images = [alone.image(name) for name in names]
    builder = alone.builder(*images, providers=paused, build_workers=4, sweep_seconds=2.0, session_seconds=10.0)
    builder.start()
    alone.until(lambda: builder.metric('nodepool_ocb_builds_total{outcome="ready"}') >= count, "all are built", 120.0)

    alone.configure(builder, *images, providers=providers)
    began = time.monotonic()
    builder.reload()
    uploads = count * PROVIDERS
    alone.until(lambda: builder.metric('nodepool_ocb_uploads_total{outcome="ready"}') >= uploads, "all are there", 60.0)
    took = time.monotonic() - began
    assert took < 30.0, "a system that sleeps after each upload needs 80 s for 32, and five minutes for 120"
    assert sum(len(alone.uploads(name, UploadState.READY)) for name in names) == uploads

    sweeps = builder.metric("nodepool_ocb_sweeps_total")
    alone.until(lambda: builder.metric("nodepool_ocb_sweeps_total") > sweeps + 1, "it is calm")
    wrote, asked, since = transactions(alone.server), requests(alone.server), time.monotonic()
    sweeps = builder.metric("nodepool_ocb_sweeps_total")
    alone.until(lambda: builder.metric("nodepool_ocb_sweeps_total") >= sweeps + 3, "three sweeps", 20.0)
    seconds = time.monotonic() - since
    assert transactions(alone.server) == wrote
    assert (
        requests(alone.server) - asked
    ) / seconds < 3.0  # though it sweeps fifteen times as often as it usually does, and the pings of two sessions count

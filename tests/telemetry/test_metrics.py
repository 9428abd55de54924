"""Metrics: what a session counts is served as it is now."""

from __future__ import annotations

from types import SimpleNamespace

from prometheus_client import REGISTRY, generate_latest

from nodepool_ocb.telemetry import metrics


def test_a_session_s_counts_are_read_when_they_are_asked_for() -> None:
    session = SimpleNamespace(ambiguous=0, unresolved=0, connections=1, largest_bytes=0, largest_changes=7)
    counts = metrics.SessionCounts(session)
    session.connections = 3
    page = generate_latest().decode()
    REGISTRY.unregister(counts)
    assert "nodepool_ocb_zookeeper_connections_total 3.0" in page
    assert "nodepool_ocb_zookeeper_unresolved_total 0.0" in page
    assert "nodepool_ocb_zookeeper_largest_changes 7.0" in page


def test_a_counter_is_one_series() -> None:
    assert "nodepool_ocb_turns_created" not in generate_latest().decode()

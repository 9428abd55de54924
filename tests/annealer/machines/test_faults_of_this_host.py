"""Faults of this host: what counts as one, and what one record may cause at many nodes."""

from __future__ import annotations

from nodepool_ocb_annealer.machines.faults import Faults


def test_a_host_that_fails_at_one_node_after_another_is_in_trouble_until_a_run_ends_well() -> None:
    faults = Faults()
    faults.fault("n1", 0.0, "no room")
    faults.fault("n1", 1.0, "no room")
    assert faults.trouble is None, "it may be the node"
    faults.fault("n2", 2.0, "no room")
    assert "no room" in str(faults.trouble)
    assert faults.until("n3", 2.0) is not None
    faults.well("n3")
    assert faults.trouble is None


def test_what_one_role_raises_at_many_nodes_is_no_fault_of_this_host() -> None:
    faults = Faults()
    for number in range(4):
        faults.fault(f"n{number}", 0.0, "ValueError: embedded null byte", role="job")
    assert faults.trouble is None
    assert faults.until("n0", 0.0) is not None, "the node itself is left alone for a while"
    assert faults.until("other", 0.0) is None


def test_what_two_roles_raise_or_a_role_and_this_host_is() -> None:
    for second in ("other", None):
        faults = Faults()
        faults.fault("n1", 0.0, "ValueError", role="job")
        faults.fault("n2", 0.0, "no room", role=second)
        assert faults.trouble is not None
    faults = Faults()
    for role in ("job", None, "job"):
        faults.fault("n1", 0.0, "no room", role=role)
    faults.fault("n2", 0.0, "ValueError", role="job")
    assert faults.trouble is not None, "what no record can cause is remembered of a node"

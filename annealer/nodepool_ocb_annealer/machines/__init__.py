"""Machines: probes, the right to judge them, and faults of this host."""

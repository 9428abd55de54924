"""Machines: probes, who may judge them, and faults of this host."""

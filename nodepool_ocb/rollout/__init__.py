"""Rollouts: a deployment strategy that is being carried out, one group of nodes after the other.

Pure: a driver reads the records and what the noderoles have come to, asks ``step.step``, writes what it decides,
does what it says, and does so again until nothing changes. docs/rollouts.md has the rules.
"""

"""Rollouts: a deployment strategy that is being carried out, one group of nodes after the other.

Pure: a driver reads the records and the states of the noderoles, calls ``step.step``, writes and carries out the
decision, and repeats this until nothing changes. docs/rollouts.md has the rules.
"""

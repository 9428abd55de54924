"""Rollouts: a deployment strategy that is being carried out, one group of nodes after the other.

Pure. A driver reads the records and the states of the noderoles, calls ``step.step``, then writes and carries out the decision.
It repeats this until nothing changes. docs/rollouts.md has the rules.
"""

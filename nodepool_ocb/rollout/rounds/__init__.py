"""The rounds of a rollout's step: results of nodes, retries, groups, and sending."""

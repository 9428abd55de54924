"""Store: rollouts and runs of tasks, which annealers drive: the pointer of a deployment, and the exclusion of others."""

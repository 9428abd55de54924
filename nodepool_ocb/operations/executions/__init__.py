"""Executions: the parts that the verbs of rollouts and of runs of tasks share."""

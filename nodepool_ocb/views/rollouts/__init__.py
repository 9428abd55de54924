"""Rollouts and strategies as they are shown, and the commands to go on with."""

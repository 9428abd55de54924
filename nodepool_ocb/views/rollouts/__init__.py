"""Rollouts and strategies as they are shown, and the next commands."""

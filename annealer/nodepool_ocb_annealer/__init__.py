"""The annealer: claims the noderoles that may start, runs them on their machines, and records the results."""

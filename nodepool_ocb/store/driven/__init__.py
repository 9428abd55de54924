"""Store: what annealers drive in a deployment, a rollout or a run of tasks: its pointer, and what keeps another out."""

"""``nodepool-ocb request``."""

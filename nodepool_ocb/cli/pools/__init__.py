"""``nodepool-ocb pool``."""

"""``nodepool-ocb installation``."""

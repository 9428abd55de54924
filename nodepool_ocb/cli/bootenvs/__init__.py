"""``nodepool-ocb bootenv``."""

"""``nodepool-ocb lease``."""

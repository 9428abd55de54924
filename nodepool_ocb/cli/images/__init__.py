"""``nodepool-ocb image`` and ``nodepool-ocb upload``."""

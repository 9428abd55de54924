"""The part of a nodepool.yaml that launchers read: labels, providers and pools."""

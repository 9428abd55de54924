"""The scripts run in the environments of other projects, not in ours."""

collect_ignore_glob = ["scripts/*"]

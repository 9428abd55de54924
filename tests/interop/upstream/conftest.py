"""The scripts of Nodepool's Python are not imported here."""

collect_ignore_glob = ["run_one.py", "*_shim.py", "cloud_server.py", "upstream_cloud.py"]

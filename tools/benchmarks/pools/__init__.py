"""The figures of launchers: ours, Nodepool's own, and a stand-in without rules, on the same machines and the same server."""

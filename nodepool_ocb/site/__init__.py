"""Site files: what a cluster is to be like, as documents say it; the plan from what it is to that; and a cluster written down."""

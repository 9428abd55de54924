"""Site files: the description of a cluster in documents, the plan to reach it, and the export of a cluster."""

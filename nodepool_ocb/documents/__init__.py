"""Files to values: YAML is read with suspicion and checked against ``schemas/``. Every fault has its file, line and
path.
"""

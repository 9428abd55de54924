"""Files to values: YAML is not trusted, and is checked against ``schemas/``. Every fault has its file, line and
path.
"""

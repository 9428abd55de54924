"""The folder of the module that a Python process imports at its start, if the folder is on its PYTHONPATH."""

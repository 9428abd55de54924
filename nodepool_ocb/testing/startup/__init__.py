"""What a Python process imports first of all, where this folder is on its PYTHONPATH."""

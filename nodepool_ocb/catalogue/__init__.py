"""Roles, and where they come from: barclamps, their attributes, scripts and Python code."""

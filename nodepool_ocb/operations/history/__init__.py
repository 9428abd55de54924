"""The journal: entries, and events as they happen."""

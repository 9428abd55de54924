"""The commands that show the journal."""

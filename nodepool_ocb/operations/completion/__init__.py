"""The names that completion offers in shells."""

"""The feed of events: what a server has seen lately, for all its streams."""

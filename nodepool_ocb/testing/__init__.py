"""Real servers on this machine for tests, demonstrations and measurements, with their start and stop."""

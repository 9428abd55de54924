"""What every daemon stands on: turns, signals, systemd, its command, appointments, threads, back-off."""

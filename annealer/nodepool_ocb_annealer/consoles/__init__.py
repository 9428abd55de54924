"""The serial consoles of machines that an annealer installs."""

"""Which hooks wait, what they are told, what they refuse, and whether anybody has their code."""

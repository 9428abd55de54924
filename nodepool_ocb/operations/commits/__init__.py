"""Rules of the verbs that commit noderoles: outdated noderoles, and reservations of rollouts."""

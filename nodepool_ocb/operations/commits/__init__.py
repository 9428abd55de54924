"""Rules that every verb shares that commits noderoles: outdated noderoles, and reservations of rollouts."""

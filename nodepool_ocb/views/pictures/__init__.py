"""What changes before people's eyes: the states of noderoles as a matrix, and how far a wait is. Plain text, laid out here."""

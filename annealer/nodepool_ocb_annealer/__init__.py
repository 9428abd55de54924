"""The annealer: takes the noderoles that may start, makes machines as they say, and writes down what came of it."""

"""Pictures for people: the matrix of states, the progress of a wait, and drawings of graphs."""

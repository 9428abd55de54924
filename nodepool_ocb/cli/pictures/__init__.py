"""What people look at while something goes on: the matrix of states, how far a wait is; and drawings of graphs."""

"""Drawings of the graph: noderoles here, tasks in views.tasks. Graphviz' language, for both."""

"""What waits for what, drawn: noderoles here, tasks in views.tasks; and Graphviz' language, for both."""

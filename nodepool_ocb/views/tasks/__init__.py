"""Task lists as people are shown them: lists, plans, graphs and histories."""

"""Displays that are redrawn: the states of noderoles as a matrix, and the progress of a wait. Plain text, laid out
here.
"""

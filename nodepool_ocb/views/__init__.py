"""The output for people, as typed values: rows, documents, explanations, progress, and the next commands.

Pure; the command line prints it.
"""

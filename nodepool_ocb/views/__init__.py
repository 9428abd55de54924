"""What people are shown, as typed values: rows, documents, explanations, progress, and the commands to go on with.

Pure; the command line prints it.
"""

"""What people are shown: explanations and the commands to go on with.

Pure; the command line prints it.
"""

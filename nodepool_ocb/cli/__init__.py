"""The command line: ``main``, and one module or folder for each noun."""

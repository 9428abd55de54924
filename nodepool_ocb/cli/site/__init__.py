"""Site files on the command line: ``apply``, ``export`` and ``node import``."""

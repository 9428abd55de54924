"""The parts that commands share: options, the session, output, times, names, following."""

"""What commands share: options, the session, output, times, names, following."""

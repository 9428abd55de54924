"""What annealers, builders and the command line stand on. ARCHITECTURE.md has the folders and their order."""

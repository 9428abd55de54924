"""The parts that annealers, builders and the command line share. ARCHITECTURE.md has the folders and their order."""

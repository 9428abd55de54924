"""The parts of printing beside the kit's: the standard streams, and tables with two lines for a row."""

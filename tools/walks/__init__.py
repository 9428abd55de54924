"""The modules of the product that eight tasks of a user run through, from the command line to the daemon."""

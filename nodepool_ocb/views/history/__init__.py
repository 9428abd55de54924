"""What changes did, and who made them: fields before and after, entries of the journal."""

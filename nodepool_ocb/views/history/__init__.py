"""Changes and their authors: fields before and after, entries of the journal."""

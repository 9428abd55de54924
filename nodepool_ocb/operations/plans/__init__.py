"""Saved plans: a dry run that a second person carries out, and the refusal if a record has moved since."""

"""Manual pages, made from the help texts of the commands."""

"""Manual pages, made of what the commands say of themselves."""

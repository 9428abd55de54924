"""Installations of machines: the identity and the reports of the installer, the progress, and a further installation."""

"""The commands without an operation, with the reason: they concern this host alone, and the API has none of them."""

from __future__ import annotations

from typing import Final

LOCAL: Final = {
    "completion": "prints a script for the shell of this host",
    "config check": "checks the configuration file of this host",
    "man": "writes manual pages on this host",
}

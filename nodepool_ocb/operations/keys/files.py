"""Key files of this host."""

from __future__ import annotations

from pathlib import Path

from nodepool_ocb.views.cluster import MadeKey


def generate(file: Path) -> MadeKey:
    """Make a key, and put it first in a file with mode 0600. Raises Invalid for a file that cannot be used."""
    from nodepool_ocb.secrecy import keyring

    made = keyring.generate(file)
    return MadeKey(key=made, file=str(file), keys=keyring.load(str(file)).ids)

"""A key to log in with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def login_key(tmp_path: Path) -> Path:
    """A private key, with its public half beside it."""
    file = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)], check=True)
    return file

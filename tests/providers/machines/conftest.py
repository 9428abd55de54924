"""An image with sshd of the container engine, and a key."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.hostimage import sshd_tar


@pytest.fixture(scope="session")
def image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of an image with sshd and the user zuul."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") is None:
        pytest.skip("no sshd for an image (Debian: openssh-server)")
    return engine.run("import", str(sshd_tar(tmp_path_factory.mktemp("image") / "image.tar"))).strip()


@pytest.fixture
def login_key(tmp_path: Path) -> Path:
    """A private key, with its public half beside it."""
    file = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)], check=True)
    return file

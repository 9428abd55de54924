"""A yard of builders, on the server that all tests share; a place to build images in, which is empty again after each
test.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import FLAVOURS, Site, interpreter
from yard import Yard

from nodepool_ocb.testing.zookeeper import Server
from nodepool_ocb_builder import isolation


@pytest.fixture
def yard(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Yard]:
    """Nothing is in it yet."""
    with Yard(zookeeper, chroot, tmp_path) as made:
        yield made


@pytest.fixture(params=list(FLAVOURS))
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """One for each way in which builds can be isolated; nothing may be left in it."""
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("only root has namespaces without a user namespace")
    folder = Path(tempfile.mkdtemp(prefix="nodepool-ocb-"))  # others may walk through, as not through tmp_path
    folder.chmod(0o755)
    here = Site(folder, request.param)
    try:
        if interpreter(here.user) is None:
            pytest.skip(f"{here.user.pw_name} can run no Python of this version, or may not read the code")
        yield here
        assert here.left() == []
    finally:
        assert isolation.sweep(here.images) == []
        shutil.rmtree(folder)

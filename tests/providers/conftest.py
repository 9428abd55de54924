"""A provider of each driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb import providers
from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.glance import Glance
from tests.providers.sites import Context, Ledger, docker_provider, local_provider, openstack_provider


@pytest.fixture
def glance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Glance]:
    """A cloud named ``test`` in clouds.yaml."""
    with Glance() as glance:
        glance.write_clouds(tmp_path / "clouds.yaml")
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
        yield glance


@pytest.fixture
def cloud(glance: Glance, until: Callable[..., None]) -> Iterator[Ledger]:
    """An uploader to that cloud, which in the end has what the uploader says that it has, and nothing else."""
    ledger = Ledger(providers.open(openstack_provider()))
    yield ledger
    glance.heal()
    until(lambda: set(glance.images) == ledger.ready)
    ledger.close()


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Ledger]:
    """An uploader to a directory, which in the end has what the uploader says that it has, and nothing else."""
    directory = tmp_path / "laboratory"
    ledger = Ledger(providers.open(local_provider(directory)))
    yield ledger
    wanted = {name for ready in ledger.ready for name in (ready, f"{ready}.json")}
    assert {path.name for path in directory.glob("*")} == wanted
    ledger.close()


@pytest.fixture
def dock(engine: Engine, tmp_path: Path) -> Iterator[Ledger]:
    """An uploader to the engine, which in the end has of this test's cluster what the uploader says that it has."""
    ledger = Ledger(providers.open(docker_provider(engine.url)))
    yield ledger
    left = [kept for kept in ledger.list() if kept.stamp.cluster == str(tmp_path)]
    assert {kept.external_id for kept in left} == ledger.ready
    for kept in left:
        assert ledger.delete(kept.external_id, kept.stamp) is None
    ledger.close()


@pytest.fixture(params=["local", "docker", "openstack"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Context:
    """A provider of each driver in turn."""
    name = {"local": "laboratory", "docker": "dock", "openstack": "cloud"}[request.param]
    image_format = "tar" if request.param == "docker" else "qcow2"
    return Context(request.getfixturevalue(name), tmp_path, image_format, str(tmp_path))

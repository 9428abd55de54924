"""A provider of each driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb import providers
from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.glance import Glance
from nodepool_ocb.testing.machines import Farm
from tests.providers.sites import (
    Context,
    Ledger,
    admin_node_provider,
    docker_provider,
    local_provider,
    openstack_provider,
)


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


@pytest.fixture(scope="module")
def admin_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """A machine with sshd, which is an admin node."""
    with Farm(1, tmp_path_factory.mktemp("admin")) as farm:
        yield farm


@pytest.fixture
def docroot(admin_node: Farm, tmp_path: Path) -> Iterator[Ledger]:
    """An uploader to that admin node, which in the end serves the builds that the uploader has, and nothing else."""
    directory = tmp_path / "served"
    ledger = Ledger(providers.open(admin_node_provider(admin_node, directory)))
    yield ledger
    images = directory / "images"
    served = {os.path.basename(os.readlink(link)) for link in images.glob("*/*") if link.is_symlink()}
    assert {path.name for path in images.glob(".uploads/*")} == ledger.ready
    assert served <= ledger.ready
    assert bool(served) == bool(ledger.ready)
    ledger.close()


@pytest.fixture(params=["local", "docker", "openstack", "admin-node"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Context:
    """A provider of each driver in turn."""
    fixtures = {"local": "laboratory", "docker": "dock", "openstack": "cloud", "admin-node": "docroot"}
    name, image_format = fixtures[request.param], {"docker": "tar", "admin-node": "raw"}.get(request.param, "qcow2")
    return Context(request.getfixturevalue(name), tmp_path, image_format, str(tmp_path))

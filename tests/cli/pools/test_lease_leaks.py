"""``lease leaks``: machines of a provider, which is a directory, without a record."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodepool_ocb.config import SshSettings
from nodepool_ocb.model.pool import LaunchFacts
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.machines import Machine, MachineOrder, MachineStamp
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from tests.cli.pools.played_launcher import PlayedLauncher
from tests.fixtures.commands import Ocb

Ask = Callable[..., Any]


class Cloud:
    """Provider ``west`` of driver test, in the launchers' file of this host."""

    def __init__(self, folder: Path) -> None:
        self.options = {"fake-cloud": {"directory": str(folder / "cloud")}}
        pool = {"name": "main", "labels": [{"name": "small"}]}
        provider = {"name": "west", "driver": "test", **self.options, "pools": [pool]}
        (folder / "nodepool.yaml").write_text(json.dumps({"labels": [{"name": "small"}], "providers": [provider]}))
        self.config = folder / "nodepool-ocb.yaml"
        self.config.write_text(json.dumps({"launcher": {"nodepool": str(folder / "nodepool.yaml")}}))
        made = LaunchProvider(name="west", driver="test", options=self.options)
        self.calls = launching.open(made, SshSettings())

    def makes(self, cluster: str, node: str, key: str, provider: str = "west") -> str:
        stamp = MachineStamp(cluster=cluster, provider=provider, pool="main", node=node, key=key)
        order = MachineOrder(
            name=f"m-{key}",
            stamp=stamp,
            label=PoolLabel(name="small"),
            pool=ProviderPool(name="main", provider="west"),
            stop=threading.Event(),
            timeout_seconds=10,
        )
        machine = self.calls.create(order)
        assert isinstance(machine, Machine)
        return machine.external_id

    def has(self) -> set[str]:
        return {each.external_id for each in self.calls.list()}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    made = Cloud(tmp_path)
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(made.config))
    return made


def test_leaks_are_listed_and_deleted_in_the_cluster_that_is_named(
    cloud: Cloud, launcher: PlayedLauncher, zk_session: Session, ask: Ask, ocb: Ocb
) -> None:
    ours = clusters.current(zk_session).id
    node = launcher.makes(driver_data=msgspec.to_builtins(LaunchFacts(key="k1")))
    used = cloud.makes(ours, node, "k1")
    former, leak = cloud.makes(ours, node, "k0"), cloud.makes(ours, "0000000097", "k2")
    foreign = cloud.makes("another", "0000000098", "k3")
    rows = {row["external_id"]: row for row in ask("lease", "leaks")}
    assert set(rows) == {former, leak, foreign}
    assert {row["whose"] for row in (rows[former], rows[leak])} == {"ours"}
    assert rows[foreign]["whose"] == "another cluster's"
    assert ocb("lease", "leaks", "west", "--delete", used, "--yes").exit_code == 3
    assert ocb("lease", "leaks", "west", "--delete", leak).exit_code == 2
    assert ocb("lease", "leaks", "west", "--delete", leak, "--dry-run").exit_code == 10
    assert ocb("lease", "leaks", "west", "--delete", foreign, "--yes").exit_code == 4
    assert cloud.has() == {used, former, leak, foreign}
    assert ocb("lease", "leaks", "west", "--delete", leak, "--yes").exit_code == 0
    assert ocb("lease", "leaks", "west", "--delete", foreign, "--cluster", "another", "--yes").exit_code == 0
    assert cloud.has() == {used, former}
    assert leak in json.dumps(ask("history", "--limit", "5"))


def test_a_provider_that_is_not_in_the_file_is_not_found(cloud: Cloud, ocb: Ocb) -> None:
    assert cloud.has() == set()
    result = ocb("lease", "leaks", "wets")
    assert result.exit_code == 3
    assert "did you mean `west`" in result.stderr


def test_without_the_file_of_launchers_no_provider_is_asked(ocb: Ocb) -> None:
    result = ocb("lease", "leaks")
    assert result.exit_code == 3
    assert "has no pools, so no provider can be asked" in result.stderr

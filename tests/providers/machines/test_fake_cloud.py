"""Drivers test and fake: a directory that is a provider of machines, with faults on demand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.pool.configuration import PoolLabel
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.machines import LaunchParty, MachineStamp
from tests.providers.machines.orders import fake_provider, made, new_order, new_stamp, opened, refused


@pytest.mark.parametrize("driver", ["fake", "test"])
def test_a_machine_runs_at_once_and_is_found_seen_listed_and_deleted(driver: str, tmp_path: Path) -> None:
    cloud = opened(fake_provider(driver, directory=str(tmp_path)))
    order = new_order()
    machine = made(cloud.create(order))
    assert (machine.state, machine.address, machine.stamp) == ("running", "127.0.0.1", order.stamp)
    assert cloud.find(order.stamp) == machine
    assert cloud.look(machine.external_id) == machine
    assert cloud.list() == (machine,)
    assert cloud.delete(machine.external_id, order.stamp) is None
    assert cloud.delete(machine.external_id, order.stamp) is None
    assert cloud.find(order.stamp) is None
    assert cloud.look(machine.external_id) is None
    assert cloud.list() == ()


def test_another_process_sees_the_same_machines(tmp_path: Path) -> None:
    order = new_order()
    machine = made(opened(fake_provider(directory=str(tmp_path))).create(order))
    assert opened(fake_provider(directory=str(tmp_path))).find(order.stamp) == machine


@pytest.mark.parametrize("part", MachineStamp.__struct_fields__)
def test_a_machine_with_another_stamp_is_not_deleted(part: str, tmp_path: Path) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path)))
    order = new_order()
    machine = made(cloud.create(order))
    parts = {field: getattr(order.stamp, field) for field in MachineStamp.__struct_fields__} | {part: "other"}
    assert "another stamp" in refused(cloud.delete(machine.external_id, MachineStamp(**parts)))
    assert cloud.look(machine.external_id) == machine


def test_without_a_directory_the_machines_last_as_long_as_the_process() -> None:
    order = new_order()
    machine = made(opened(fake_provider()).create(order))
    cloud = opened(fake_provider())
    assert cloud.find(order.stamp) == machine
    assert cloud.delete(machine.external_id, order.stamp) is None


def test_a_slow_boot_is_building_and_has_no_address(tmp_path: Path, until: Callable[..., None]) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path), **{"boot-seconds": 0.3}))
    machine = made(cloud.create(new_order()))
    assert (machine.state, machine.address) == ("building", None)
    until(lambda: made(cloud.look(machine.external_id)).state == "running")


def test_a_machine_that_a_launcher_with_a_wrong_clock_made_boots_in_its_time(
    tmp_path: Path, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path), **{"boot-seconds": 0.1}))
    ahead = time.time() + 3600.0
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: ahead)
        machine = made(cloud.create(new_order()))
    until(lambda: made(cloud.look(machine.external_id)).state == "running")


def test_a_full_quota_refuses_a_creation_as_quota(tmp_path: Path) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path), quota={"instances": 2}, foreign={"instances": 1}))
    made(cloud.create(new_order()))
    assert "Quota exceeded for instances" in refused(cloud.create(new_order()), LaunchParty.QUOTA)
    quota = cloud.quota()
    assert isinstance(quota, ProviderQuota)
    assert (quota.limits, quota.foreign) == ({"instances": 2}, {"instances": 1})


def test_a_quota_may_be_reported_falsely(tmp_path: Path) -> None:
    cloud = opened(
        fake_provider(directory=str(tmp_path), quota={"instances": 0}, **{"reported-quota": {"instances": 50}})
    )
    quota = cloud.quota()
    assert isinstance(quota, ProviderQuota)
    assert quota.limits == {"instances": 50}
    refused(cloud.create(new_order()), LaunchParty.QUOTA)


def test_the_nth_creation_fails_counted_in_the_directory(tmp_path: Path) -> None:
    fault = {"call": "create", "at": [2], "do": "refuse", "reason": "no luck", "party": "provider"}
    provider = fake_provider(directory=str(tmp_path), faults=[fault])
    made(opened(provider).create(new_order()))
    assert refused(opened(provider).create(new_order()), LaunchParty.PROVIDER) == "no luck"
    made(opened(provider).create(new_order()))


def test_faults_are_changed_while_it_is_in_use(tmp_path: Path) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path)))
    made(cloud.create(new_order()))
    (tmp_path / "faults.json").write_text(json.dumps([{"call": "create", "do": "refuse"}]))
    refused(cloud.create(new_order()), LaunchParty.MACHINE)
    (tmp_path / "faults.json").write_text("[]")
    made(cloud.create(new_order()))


def test_a_lost_answer_leaves_a_machine_that_is_found(tmp_path: Path) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path), faults=[{"call": "create", "do": "raise", "when": "after"}]))
    order = new_order()
    refused(cloud.create(order), LaunchParty.PROVIDER)
    made(cloud.find(order.stamp))


def test_a_failed_machine_tells_its_fault(tmp_path: Path) -> None:
    cloud = opened(
        fake_provider(directory=str(tmp_path), faults=[{"call": "create", "do": "error", "reason": "no host"}])
    )
    machine = made(cloud.create(new_order()))
    assert (machine.state, machine.fault) == ("failed", "no host")


def test_nonsense_is_refused(tmp_path: Path) -> None:
    faults = [{"call": call, "do": "nonsense"} for call in ("create", "find", "look", "list", "quota", "delete")]
    cloud = opened(fake_provider(directory=str(tmp_path), faults=faults))
    order = new_order()
    refused(cloud.create(order))
    refused(cloud.find(order.stamp))
    refused(cloud.look("fake-1"))
    refused(cloud.quota())
    refused(cloud.delete("fake-1", order.stamp))
    with pytest.raises(Unavailable):
        cloud.list()


def test_a_zone_that_does_not_exist_is_a_fault_of_the_request(tmp_path: Path) -> None:
    cloud = opened(fake_provider(directory=str(tmp_path), azs=["az1"]))
    refused(cloud.create(new_order(az="az9")), LaunchParty.REQUEST)
    assert made(cloud.create(new_order())).az == "az1"


CREATE = """
import sys, threading
from msgspec.json import decode
from tests.providers.machines.orders import fake_provider, new_order, opened
from nodepool_ocb.providers.machines import MachineStamp
opened(fake_provider(**decode(sys.argv[1]))).create(new_order(stamp=decode(sys.argv[2], type=MachineStamp)))
"""


@pytest.mark.parametrize(("when", "machines"), [("before", 0), ("after", 1)])
def test_a_launcher_killed_beside_its_call_leaves_one_machine_or_none(when: str, machines: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "directory": str(tmp_path),
        "faults": [{"call": "create", "at": [1], "do": "kill", "when": when}],
    }
    stamp = new_stamp()
    texts = [json.dumps(options), json.dumps({field: getattr(stamp, field) for field in stamp.__struct_fields__})]
    ended = subprocess.run([sys.executable, "-c", CREATE, *texts], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    cloud = opened(fake_provider(**options))
    assert len(cloud.list()) == machines
    assert (cloud.find(stamp) is not None) == bool(machines)


def test_two_machines_at_once_do_not_exceed_the_quota(tmp_path: Path) -> None:
    provider = fake_provider(directory=str(tmp_path), quota={"instances": 3})
    clouds = [opened(provider) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: clouds[number % 4].create(new_order()), range(16)))
    assert len(clouds[0].list()) == 3


def test_resources_are_those_of_a_flavor_or_one_instance() -> None:
    label = PoolLabel(name="l")
    assert launching.resources(fake_provider(), label) == {"instances": 1, "cores": 4, "ram": 8192}
    assert launching.resources(fake_provider("test"), label) == {"instances": 1}


def test_unknown_options_are_named() -> None:
    (fault,) = launching.faults(fake_provider(directroy="/x"))
    assert "fake-cloud.directroy: unknown key `directroy`; did you mean `directory`?" in fault

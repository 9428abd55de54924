"""Eight machines with power alone are installed by a rollout in groups; one of them has a disk that is too small.

The rule of adoption commits nothing, so the rollout does the first installation. Its criteria decide: one group tolerates the
broken machine, one does not, and the group behind that one is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import Installation, InstallStep
from nodepool_ocb.model.records import State
from nodepool_ocb.testing.virtual import preparing
from nodepool_ocb.testing.virtual.machine import VirtualDisk
from nodepool_ocb.testing.virtual.site import DEPLOYMENT, DOMAIN, NETWORK, MetalSite
from nodepool_ocb.testing.virtual.walking import DISK_MB, STEP_SECONDS, Walker
from tests.journeys.machines.leased import owners
from tests.journeys.machines.test_first_machine import MISSING, ROLES, images_of_here, site_with

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
MEMORY_MB: Final = 512
SMALL_MB: Final = 100
BROKEN: Final = 2
UNSENT: Final = 8
GOOD: Final = (1, 3, 4, 5, 6, 7)
ROLLOUT_SECONDS: Final = 3 * STEP_SECONDS


def _group(name: str, numbers: Sequence[int], *, after: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    selectors = [{"node_names": [f"n{number}" for number in numbers]}]
    return {"name": name, "critical": False, "depends_on": [*after], "selectors": selectors, **more}


STRATEGY: Final = {
    "groups": [
        _group("first", (1, 2, 3, 4), critical=True, success_criteria={"maximum_failed_nodes": 1}),
        # its members were sent for the first group, and it judges them again
        _group("strict", (1, 2), after=["first"], success_criteria={"maximum_failed_nodes": 0}),
        _group("second", (5, 6, 7), after=["first"], critical=True, success_criteria={"percent_successful_nodes": 100}),
        _group("last", (UNSENT,), after=["strict"], success_criteria={"minimum_successful_nodes": 1}),
    ],
    "phases": [{"name": "deploy", "timeout_seconds": ROLLOUT_SECONDS}],
}


def test_a_rollout_installs_eight_machines_in_groups(tmp_path: Path) -> None:
    with site_with(tmp_path, images_of_here(), boot="bios") as site, ExitStack() as up:
        preparing.adopt_all(site.ocb, commit=False)
        walkers = {number: up.enter_context(_walker(site, number)) for number in range(1, 9)}
        for walker in walkers.values():
            walker.switch_on()
        for walker in walkers.values():
            _is_adopted(walker)
        strategy = tmp_path / "strategy.yaml"
        strategy.write_text(yaml.safe_dump(STRATEGY))
        site.ocb("rollout", "start", str(strategy), "--deployment", DEPLOYMENT)
        site.until(lambda: _rollout(site)["state"] != "running", "the rollout is over", ROLLOUT_SECONDS)
        print(site.ocb("rollout", "show", DEPLOYMENT), site.ocb("rollout", "show", DEPLOYMENT, "--report"))
        _criteria_decided(site)
        _each_was_installed_once(site, walkers)
        _no_address_was_assigned_twice(site, walkers)


def _walker(site: MetalSite, number: int) -> Walker:
    disk = VirtualDisk(size_mb=SMALL_MB if number == BROKEN else DISK_MB, serial=f"disk{number}")
    return Walker(site, number, memory_mb=MEMORY_MB, disks=(disk,))


def _is_adopted(walker: Walker) -> None:
    """It has a node, and nothing was installed."""
    walker.until(lambda: walker.registration and walker.registration.node == walker.fqdn, "adopted", 2 * STEP_SECONDS)
    states = walker.site.states(walker.fqdn)
    assert states.pop(preparing.INSTALL) is State.PROPOSED, states
    assert (walker.installation, walker.heard("identified as")) == (None, 0)


def _rollout(site: MetalSite) -> Any:
    return site.ask("rollout", "show", DEPLOYMENT)


def _criteria_decided(site: MetalSite) -> None:
    """The state of each group is that of its criteria, and each began after those that it depends on."""
    rollout = _rollout(site)
    groups = {row["group"]: row for row in rollout["groups"]}
    assert {name: row["state"] for name, row in groups.items()} == {
        "first": "success",
        "strict": "failed",
        "second": "success",
        "last": "failed",
    }
    assert (rollout["state"], groups["last"]["reason"]) == ("success", "dependency"), rollout["reason"]
    assert rollout["nodes"] == {
        "success": [f"n{number}.{DOMAIN}" for number in GOOD],
        "failure": [f"n{BROKEN}.{DOMAIN}"],
        "not started": [f"n{UNSENT}.{DOMAIN}"],
    }
    began = {number: _installation(site, number).started for number in GOOD}
    ended = {number: _installation(site, number).since for number in GOOD}  # step ALIVE
    first, second = ([number for number in GOOD if (number < 5) is early] for early in (True, False))
    assert max(ended[number] for number in first) <= groups["first"]["since"] <= min(began[number] for number in second)


def _installation(site: MetalSite, number: int) -> Installation:
    found = site.record(Installation, paths.installation(f"n{number}.{DOMAIN}"))
    assert found is not None
    return found


def _each_was_installed_once(site: MetalSite, walkers: Mapping[int, Walker]) -> None:
    for number in GOOD:
        walker = walkers[number]
        assert walker.all_active()
        assert len(site.states(walker.fqdn)) == ROLES
        assert walker.heard("identified as") == walker.heard("restarting from the disk") == 1, walker.agent_said
        assert walker.runs()[preparing.INSTALL] == 1
        assert _installation(site, number).step is InstallStep.ALIVE
        key = _installation(site, number).host_key
        assert walker.asks("hostname; findmnt -no SOURCE /", key).split() == [f"n{number}", "/dev/sda3"]
    broken, unsent = walkers[BROKEN], walkers[UNSENT]
    for walker in (broken, unsent):
        assert walker.heard("identified as") == 0
    explained = site.ocb("noderole", "explain", f"{preparing.INSTALL}@{broken.fqdn}")
    assert f"disk{BROKEN}" in explained, explained
    assert set(site.states(unsent.fqdn).values()) == {State.PROPOSED}
    assert unsent.installation is None


def _no_address_was_assigned_twice(site: MetalSite, walkers: Mapping[int, Walker]) -> None:
    (host,) = site.admins
    given = owners(host.read("log/dnsmasq.log"))
    assert {mac for macs in given.values() for mac in macs} == {walker.mac for walker in walkers.values()}
    assert {address: macs for address, macs in given.items() if len(macs) > 1} == {}
    fixed = [address for walker in walkers.values() for address in walker.node.networks[NETWORK]]
    assert len(fixed) == len(set(fixed)) == len(walkers)

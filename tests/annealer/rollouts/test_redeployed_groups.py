"""Rollouts that install machines again, with real annealers: the criteria decide, and no disk is erased out of its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodepool_ocb.engine.installing import AWAITS_INSTALLER
from nodepool_ocb.errors import Conflict
from nodepool_ocb.model.records import State
from nodepool_ocb.operations.installations.progress import ReportKind
from nodepool_ocb.operations.rollouts.directing import RolloutCancel, RolloutRetry
from nodepool_ocb.operations.rollouts.reading import RolloutShow
from nodepool_ocb.operations.rollouts.starting import RolloutStart
from nodepool_ocb.rollout.strategy import Strategy
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import DEPLOYMENT, Fleet
from tests.journeys.installing import INSTALL, Agent, InstallFleet, performed


@pytest.fixture
def fleet_of(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Callable[[int], Fleet]]:
    with ExitStack() as stack:

        def made(machines: int) -> Fleet:
            fleet: AbstractContextManager[Fleet] = Fleet(zookeeper, chroot, tmp_path, machines)
            return stack.enter_context(fleet)

        yield made


def group(name: str, sites: list[InstallFleet], **fields: Any) -> dict[str, Any]:
    """A critical group of these machines, which must all succeed."""
    made = {"name": name, "critical": True, "depends_on": [], "selectors": [{"node_names": [s.fqdn for s in sites]}]}
    return made | {"success_criteria": {"percent_successful_nodes": 100}} | fields


def strategy(*groups: dict[str, Any], **fields: Any) -> Strategy:
    return msgspec.convert(
        {"groups": groups, "phases": [{"name": "deploy", "timeout_seconds": 600.0}], **fields}, Strategy
    )


def started(fleet: Fleet, chosen: Strategy, **call: Any) -> Any:
    return performed(fleet, RolloutStart(strategy=chosen, deployment=DEPLOYMENT, redeploy=(INSTALL,)), **call)


def shown(fleet: Fleet) -> Any:
    return performed(fleet, RolloutShow(deployment=DEPLOYMENT)).document


def until_over(fleet: Fleet) -> Any:
    fleet.until(lambda: shown(fleet).state in ("success", "failed", "cancelled"), "the rollout is over", 120.0)
    return shown(fleet)


def breaks(site: InstallFleet) -> None:
    """Its installer cannot write the disk."""
    site.until_told()
    agent = Agent(site)
    agent.identify()
    agent.report(ReportKind.FAILED, reason="the disk does not answer")


def installs(site: InstallFleet) -> None:
    site.until_told()
    Agent(site).installs()


def boots_by_hand(site: InstallFleet) -> None:
    """It was left in its installer, and a person starts it from the network again."""
    site.fleet.until(
        lambda: site.token and (record := site.record) and record.step in AWAITS_INSTALLER, "it is awaited"
    )
    Agent(site).installs()


def test_a_broken_first_group_keeps_the_disks_of_the_second_and_a_retry_installs_each_machine_once(
    fleet_of: Callable[[int], Fleet],
) -> None:
    fleet = fleet_of(2)
    first, second = sites = [InstallFleet(fleet, number) for number in range(2)]
    names = [site.was_installed() for site in sites]
    chosen = strategy(group("first", [first]), group("second", [second], depends_on=["first"]))
    planned = started(fleet, chosen, dry_run=True).planned
    assert planned.losses == tuple(
        f"{site.fqdn}: serial=S1 loses its data; it receives the newest build of image debian" for site in sites
    )
    fleet.annealer().begin()
    started(fleet, chosen)
    breaks(first)
    assert until_over(fleet).state == "failed"
    assert (second.reboots(), fleet.state(names[1])) == (0, State.ACTIVE), "its disk was left alone"
    performed(fleet, RolloutRetry(deployment=DEPLOYMENT))
    boots_by_hand(first)
    installs(second)
    assert until_over(fleet).state == "success"
    assert [fleet.record(name).generation for name in names] == [3, 2], "one redeployment each, and one retry"


@pytest.mark.long
def test_a_node_without_leave_is_refused_and_a_cancel_takes_back_an_erasure_that_has_not_begun(
    fleet_of: Callable[[int], Fleet],
) -> None:
    fleet = fleet_of(1)
    site = InstallFleet(fleet)
    name = site.was_installed()
    fleet.set_node(site.fqdn, allow_install=False)
    with pytest.raises(Conflict, match=f"allow_install is not set of {site.fqdn}"):
        started(fleet, strategy(group("all", [site])))
    fleet.set_node(site.fqdn, allow_install=True)
    started(fleet, strategy(group("all", [site])))
    fleet.set_node(site.fqdn, allow_install=False)  # meanwhile
    fleet.annealer().begin()
    fleet.until_state(name, State.TODO)
    performed(fleet, RolloutCancel(deployment=DEPLOYMENT))
    assert until_over(fleet).state == "cancelled"
    record = fleet.record(name)
    assert (record.state, record.once, site.reboots(), site.record) == (State.ACTIVE, "done", 0, None)


@pytest.mark.long
def test_eight_machines_in_two_groups_with_a_broken_one_and_a_killed_leader(fleet_of: Callable[[int], Fleet]) -> None:
    fleet = fleet_of(8)
    sites = [InstallFleet(fleet, number) for number in range(8)]
    fleet.add_role("ntp", fleet.work(0.0))
    above = [site.was_installed() for site in sites]
    below = [fleet.bind("ntp", site.fqdn, [name]) for site, name in zip(sites, above, strict=True)]
    leader, other = fleet.annealer().begin(), fleet.annealer().begin()
    fleet.until_all_active()
    bearing = {"success_criteria": {"percent_successful_nodes": 75}}
    chosen = strategy(
        group("first", sites[:4], **bearing),
        group("second", sites[4:], depends_on=["first"], **bearing),
        parallel_groups=1,
    )
    started(fleet, chosen)
    breaks(sites[0])
    fleet.until(lambda: shown(fleet).driver is not None, "it is driven")
    driver = next(each for each in (leader, other) if str(each.pid) in str(shown(fleet).driver) or each is other)
    driver.kill()
    assert all(site.reboots() == 0 for site in sites[4:]), "the second group waits"
    for site in sites[1:4]:
        installs(site)
    for site in sites[4:]:
        installs(site)
    found = until_over(fleet)
    assert found.state == "success"
    assert {site.reboots() for site in sites} == {1}
    assert [fleet.state(name) for name in above] == [State.ERROR, *[State.ACTIVE] * 7]
    assert fleet.starts() == {name: 2 if name != below[0] else 1 for name in below}

"""Runs of tasks, by real annealers: in the order of the plan, with every task accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.tasks.runs.history import Row
from nodepool_ocb.tasks.runs.records import Outcome, RunState
from tests.annealer.tasks.task_staging import annealer, begin, build, finished, history

NODES = {
    "n1": ["primary-controller"],
    "n4": ["controller"],
    "n2": ["controller"],
    "n3": ["controller"],
    "n5": ["controller"],
    "n6": ["cinder"],
    "n7": ["network"],
    "n8": ["compute"],
}

SEED = """
- {id: deploy, type: stage}
- {id: primary-controller, type: group, role: [primary-controller], required_for: [deploy],
   parameters: {strategy: {type: one_by_one}}}
- {id: controller, type: group, role: [controller], requires: [primary-controller], required_for: [deploy],
   parameters: {strategy: {type: parallel, amount: 2}}}
- {id: cinder, type: group, role: [cinder], requires: [controller], required_for: [deploy],
   parameters: {strategy: {type: parallel}}}
- {id: compute, type: group, role: [compute], requires: [controller], required_for: [deploy],
   parameters: {strategy: {type: parallel}}}
- {id: network, type: group, role: [network], requires: [controller], required_for: [compute, deploy],
   parameters: {strategy: {type: parallel}}}
- {id: setup_services, type: puppet, requires: [setup_network], required_for: [deploy],
   groups: [controller, primary-controller, compute, network, cinder],
   parameters: {puppet_manifest: /etc/puppet/manifests/controller.pp, puppet_modules: /etc/puppet/modules, timeout: 360}}
- {id: setup_network, type: shell, required_for: [deploy],
   groups: [controller, primary-controller, compute, network, cinder],
   parameters: {cmd: run_setup_network.sh, timeout: 120}}
"""

DELAYS = {"setup_network": {"delay": 0.2}, "setup_services": {"delay": 0.2}}


def outcomes(rows: Mapping[str, Row]) -> dict[str, str]:
    return {name: row.outcome for name, row in rows.items() if "@" in name}


def follows(rows: Mapping[str, Row], first: Iterable[str], then: Iterable[str]) -> bool:
    """Whether everything on these nodes began when everything on those had ended."""
    tasks = ("setup_network", "setup_services")
    ends = [rows[f"{task}@{node}"].ended for node in first for task in tasks]
    begins = [rows[f"{task}@{node}"].started for node in then for task in tasks]
    return max(end for end in ends if end) <= min(start for start in begins if start)


def test_the_seed_s_example_runs_in_the_seed_s_order(
    zk_session: Session, zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    build(zk_session, NODES)
    with annealer(zk_settings, tmp_path / "one") as one, annealer(zk_settings, tmp_path / "two"):
        run = begin(zk_session, SEED, NODES, DELAYS)
        head = finished(zk_session, run, one)
    rows = history(zk_session, run)
    assert head.state is RunState.SUCCESSFUL
    assert set(outcomes(rows).values()) == {Outcome.SUCCESSFUL}
    assert len(outcomes(rows)) == 16
    for first, then in (
        (["n1"], ["n4", "n2"]),
        (["n4", "n2"], ["n3", "n5"]),
        (["n3", "n5"], ["n6", "n7"]),
        (["n7"], ["n8"]),
    ):
        assert follows(rows, first, then), (first, then)
    side, other = rows["setup_network@n6"], rows["setup_network@n7"]
    assert (side.started or 0) < (other.ended or 0), "side by side"
    assert all(row.queued is not None and row.queued <= (row.started or 0) for row in rows.values())

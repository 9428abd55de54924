"""Rollouts, driven by real annealers: the seed's examples, crashes at every step, time that runs out, people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet
from staging import Staged, acting, generations, loaded, nodes, roles, stack

from nodepool_ocb.model import Node
from nodepool_ocb.rollout.reporting import report
from nodepool_ocb.testing.zookeeper import Server

EXAMPLE = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {schema: metadata/Document/v1, name: deployment-strategy}
data:
  groups:
    - name: ntp-node
      critical: true
      depends_on: []
      selectors: [{node_names: [ntp01], node_labels: [], node_tags: [], rack_names: []}]
      success_criteria: {minimum_successful_nodes: 1}
    - name: control-nodes
      critical: true
      depends_on: [ntp-node]
      selectors: [{node_names: [], node_labels: [], node_tags: [control], rack_names: [rack03]}]
      success_criteria: {percent_successful_nodes: 90, minimum_successful_nodes: 3, maximum_failed_nodes: 1}
    - name: monitoring-nodes
      critical: false
      depends_on: []
      selectors: [{node_names: [], node_tags: [monitoring], rack_names: [rack03, rack02, rack01]}]
    - name: compute-nodes-2
      critical: false
      depends_on: [control-nodes]
      selectors: [{rack_names: [rack02], node_tags: [compute]}]
      success_criteria: {percent_successful_nodes: 50}
    - name: compute-nodes-1
      critical: false
      depends_on: [control-nodes]
      selectors: [{rack_names: [rack01], node_tags: [compute]}]
      success_criteria: {percent_successful_nodes: 50}
"""

SITE = {
    "ntp01.example.com": Node(rack="rack03"),
    **{f"c{number}.example.com": Node(tags=("control",), rack="rack03") for number in (1, 2, 3)},
    "m1.example.com": Node(tags=("monitoring",), rack="rack01"),
    **{f"a{number}.example.com": Node(tags=("compute",), rack="rack01") for number in (1, 2)},
    **{f"b{number}.example.com": Node(tags=("compute",), rack="rack02") for number in (1, 2, 3)},
}

RUNS = {
    "success": (
        [],
        """\
Start
|
| prepare ntp-node           <SUCCESS>
| deploy ntp-node            <SUCCESS>
V
| prepare control-nodes      <SUCCESS>
| deploy control-nodes       <SUCCESS>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare compute-nodes-2    <SUCCESS>
| deploy compute-nodes-2     <SUCCESS>
V
| prepare compute-nodes-1    <SUCCESS>
| deploy compute-nodes-1     <SUCCESS>
|
Finish (success)""",
    ),
    "prepare of ntp-node fails": (
        ["os@ntp01"],
        """\
Start
|
| prepare ntp-node           <FAILED>
| deploy ntp-node            <FAILED, due to prepare failure>
V
| prepare control-nodes      <FAILED, due to dependency>
| deploy control-nodes       <FAILED, due to dependency>
V
| prepare compute-nodes-2    <FAILED, due to dependency>
| deploy compute-nodes-2     <FAILED, due to dependency>
V
| prepare compute-nodes-1    <FAILED, due to dependency>
| deploy compute-nodes-1     <FAILED, due to dependency>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
|
Finish (failed due to critical group failed)""",
    ),
    "deploy of compute-nodes-2 fails": (
        ["app@b1", "app@b2"],
        """\
Start
|
| prepare ntp-node           <SUCCESS>
| deploy ntp-node            <SUCCESS>
V
| prepare control-nodes      <SUCCESS>
| deploy control-nodes       <SUCCESS>
V
| prepare monitoring-nodes   <SUCCESS>
| deploy monitoring-nodes    <SUCCESS>
V
| prepare compute-nodes-2    <SUCCESS>
| deploy compute-nodes-2     <FAILED>
V
| prepare compute-nodes-1    <SUCCESS>
| deploy compute-nodes-1     <SUCCESS>
|
Finish (success with some nodes/groups failed)""",
    ),
}


@pytest.fixture
def bare(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    """No machine yet."""
    with Fleet(zookeeper, chroot, tmp_path, machines=0) as fleet:
        yield fleet


@pytest.fixture
def site(bare: Fleet) -> Fleet:
    """The seed's example: ten nodes of five groups, whose jigs act on nothing."""
    nodes(bare, SITE)
    roles(bare, os=acting(0.05), app=acting(0.05))
    return bare


@pytest.mark.parametrize("run", RUNS)
def test_the_examples_of_the_seed(site: Fleet, run: str) -> None:
    failing, drawing = RUNS[run]
    stack(site, failing)
    for _ in range(2):
        site.annealer().begin()
    staged = Staged(site, loaded(EXAMPLE))
    told = report(staged.until_over())
    assert told[: told.index("\n\n")] == drawing
    for name, progress in staged.now.nodes.items():
        assert f"\n  {name}" in told.split(f"{progress.state} (")[1]
    begun = {name for name, generation in generations(site).items() if generation}
    sent = {name for name, progress in staged.now.nodes.items() if progress.group is not None}
    assert {name.partition("@")[2] for name in begun} == sent
    assert set(generations(site).values()) <= {0, 1}, "each noderole was committed once, or never"
    site.until(lambda: staged.holder is None, "the lock is given back")

"""The example of seed 003: five groups, and a site of ten nodes that they choose from."""

from __future__ import annotations

from nodepool_ocb.model.records import Node

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

"""The listings of seed 002 as they stand: read, with warnings, or refused with the slips that they have."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import reading
from nodepool_ocb.tasks.tasklist import StrategyType, TaskKind, TaskStrategy

GROUPS = """
- id: deploy
  type: stage
- id: primary-controller
  type: group
  role: [primar-controller]
  required_for: [deploy]
  parameters:
    strategy:
      type: one_by_one
- id: controller
  type: group
  role: [controller]
  requires: [primary-controller]
  required_for: [deploy]
  parameters:
    strategy:
      type: parallel
      amount: 2
- id: cinder
  type: group
  role: [cinder]
  requires: [controller]
  required_for: [deploy]
  parameters:
    strategy:
      type: parallel
- id: compute
  type: group
  role: [compute]
  requires: [controller]
  required_for: [deploy]
  parameters:
    strategy:
      type: parallel
- id: network
  type: group
  role: [network]
  requires: [controller]
  required_for: [compute, deploy]
  parameters:
    strategy:
      type: parallel
- id: setup_services
  type: puppet
  requires: [setup_network]
  groups: [controller, primary-controller, compute, network, cinder]
  required_for: [deploy]
  parameters:
    puppet_manifests: /etc/puppet/manifests/controller.pp
    puppet_modules: /etc/puppet/modules
    timeout: 360
- id: setup_network
  type: shell
  groups: [controller, primary-controller, compute, network, cinder]
  required_for: [deploy]
  parameters:
    cmd: run_setup_network.sh
    timeout: 120
"""

HOOKS = """
- id: update_hosts
  type: puppet
  role: '*'
  stage: post_deployment
  requires: [upload_nodes_info]
  parameters:
    puppet_manifest: /etc/pupppet/modules/update_hosts_file.pp
    puppet_modules: /etc/puppet/modules
    timeout: 3600
    cwd: /
- id: rsync_puppet
  type: rsync
  role: '*'
  stage: pre_deployment
  parameters:
    src: /etc/pupppet/{VERSION}
    dst: /etc/puppet/modules
    timeout: 3600
"""

ALTERNATIVES = """
- id: primary-controller
  type: puppet
  required_for: [deploy]
  role: [primary-controller]
  strategy:
    type: one_by_one
  parameters:
    puppet_manifest: /etc/puppet/controller.pp
- id: controller
  type: puppet
  requires: [primary-controller]
  required_for: [deploy]
  strategy:
    type: parallel
    amount: 2
  parameters:
    puppet_manifest: /etc/puppet/controller.pp
- id: compute
  type: puppet
  requires: [controller]
  strategy:
    type: parallel
  parameters:
    puppet_manifest: /etc/puppet/compute.pp
"""

MAINTENANCE = """
- id: put_compute_into_maintenance_mode
  type: puppet
  role: [primary-controller]
- id: migrate_vms_from_compute
  type: puppet
  role: [primary-controller]
  requires: [put_vm_into_maintenance_mode]
- id: reinstall_ovs
  type: puppet
  role: [compute]
  requires: [put_vm_into_maintenance_mode, migrate_vms_from_compute]
- id: make_compute_available
  role: [primary-controller]
  requires: [reinstall_vs]
"""


def test_the_example_of_groups_is_read_with_a_word_about_each_of_its_slips() -> None:
    found = reading.read_texts({"f": GROUPS})
    assert [warning.split(": ", 2)[1] for warning in found.warnings] == [
        "primary-controller.role[0]",
        "setup_services.parameters.puppet_manifests",
    ]
    assert "nearly primary-controller" in found.warnings[0]
    assert found.tasks.by_id["controller"].strategy == TaskStrategy(StrategyType.PARALLEL, 2)


def test_the_example_of_hooks_lacks_a_task_and_is_read_with_it() -> None:
    with pytest.raises(Invalid, match=r'update_hosts\.requires.* and is "upload_nodes_info"') as caught:
        reading.read_texts({"f": HOOKS})
    assert len(caught.value.problems) == 1
    found = reading.read_texts({"f": HOOKS + "- {id: upload_nodes_info, type: skipped, role: '*'}"})
    assert found.tasks.by_id["rsync_puppet"].kind is TaskKind.SYNC
    assert [task.stage for task in found.tasks.tasks] == ["post_deployment", "pre_deployment", None]


def test_the_alternative_without_groups_is_read_with_roles_of_its_ids() -> None:
    found = reading.read_texts({"f": ALTERNATIVES})
    assert [task.roles for task in found.tasks.tasks] == [("primary-controller",), ("controller",), ("compute",), ()]
    assert found.tasks.by_id["controller"].strategy == TaskStrategy(StrategyType.PARALLEL, 2)
    assert found.tasks.by_id["deploy"].kind is TaskKind.STAGE
    assert sum("belongs into parameters" in warning for warning in found.warnings) == 3
    assert sum("says nowhere where it runs" in warning for warning in found.warnings) == 2
    assert sum("no stage deploy" in warning for warning in found.warnings) == 2


def test_the_example_of_maintenance_is_refused_with_each_of_its_slips() -> None:
    with pytest.raises(Invalid) as caught:
        reading.read_texts({"f": MAINTENANCE})
    expected = [
        "f:2: put_compute_into_maintenance_mode: key `puppet_manifest` is missing",
        "f:5: migrate_vms_from_compute: key `puppet_manifest` is missing",
        'f:8: migrate_vms_from_compute.requires[0]: must name a task of this list, and is "put_vm_into_maintenance_mode"',
        "f:9: reinstall_ovs: key `puppet_manifest` is missing",
        'f:12: reinstall_ovs.requires[0]: must name a task of this list, and is "put_vm_into_maintenance_mode"',
        "f:13: make_compute_available: key `type` is missing",
        'f:15: make_compute_available.requires[0]: must name a task of this list, and is "reinstall_vs"; did you mean',
    ]
    assert len(caught.value.problems) == len(expected)
    for problem, beginning in zip(caught.value.problems, expected, strict=True):
        assert problem.startswith(beginning)

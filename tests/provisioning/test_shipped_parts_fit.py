"""The shipped parts of the provisioner name each other: images, the boot server, boot scripts, and the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.engine import binding
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.model.boot import SHIPPED
from nodepool_ocb.model.records import Deployment, DeploymentState, Node
from nodepool_ocb.providers.adminnode import driver
from nodepool_ocb.provisioning import bootenvs, orders
from tests.catalogue.test_shipped_barclamps import IMPORTED

ETC = Path(__file__).parents[2] / "etc"


def test_the_shipped_boot_environments_boot_images_of_the_shipped_nodepool_yaml() -> None:
    sections = yaml.safe_load((ETC / "provisioner" / "nodepool.yaml").read_text())["diskimages"]
    pxe = {each["name"] for each in sections if each.get("formats") == ["pxe"]}
    assert {each.image for each in SHIPPED.values() if each.image} <= pxe


@pytest.mark.parametrize("role", ["provisioner-dhcp-database", "dns-database"])
def test_each_admin_node_with_a_database_has_the_server_of_its_own(role: str) -> None:
    world = World()
    world.put(Stored(Deployment(parent=None, state=DeploymentState.COMMITTED), 0), "system")
    for name, record in IMPORTED.roles.items():
        world.put(Stored(record, 0), name)
    for fqdn in ("a1.example.com", "a2.example.com"):
        world.put_node(fqdn, Node(alive=True, admin=True), 0)
        plan = binding.plan(world, role, fqdn, now=1.0)
        for name, noderole in plan.noderoles:
            world.put_noderole(fqdn, name.partition("@")[0], noderole)
        bound = dict(plan.noderoles)
        assert f"provisioner-server@{fqdn}" in bound[f"{role}@{fqdn}"].parents
        assert f"provisioner-server@{fqdn}" in bound


def test_images_are_uploaded_below_the_docroot_of_the_boot_server() -> None:
    [role] = [
        each
        for each in yaml.safe_load((ETC / "barclamps" / "provisioner.yml").read_text())["roles"]
        if each["name"] == "provisioner-server"
    ]
    attributes = {each["name"]: each for each in role["attribs"]}
    assert "root @ROOT@/http;" in attributes["provisioner_nginx"]["default"]
    assert f"{attributes['provisioner_root']['default']}/http" == driver.DIRECTORY


def test_initrds_of_a_boot_script_are_archives_to_unpack_and_no_files_to_wrap() -> None:
    """iPXE makes an archive with one file of an initrd that has an argument."""
    lines = [line.partition(" ||")[0].split() for line in bootenvs.SCRIPT.splitlines() if line.startswith("initrd ")]
    assert [words[:3] for words in lines] == [["initrd", "--name", "initrd"], ["initrd", "--name", "site.cpio"]]
    assert {len(words) for words in lines} == {4}


def test_the_environment_can_be_told_to_boot() -> None:
    """It has no systemd, so the second command of the default is the one that works."""
    assert orders.REBOOT.endswith("|| reboot")
    assert os.access(ETC / "provisioner" / "environment" / "usr" / "sbin" / "reboot", os.X_OK)

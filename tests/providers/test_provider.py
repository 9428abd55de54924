"""Drivers are found by their entry points, and say what is wrong before anything is sent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodepool_ocb import providers
from nodepool_ocb.errors import Invalid
from nodepool_ocb.images.nodepool import Provider
from tests.providers.sites import openstack_provider


def test_the_drivers_of_the_project_are_installed() -> None:
    assert {"docker", "local", "openstack"} <= set(providers.installed().usable)


def test_an_unknown_driver_is_told_with_what_was_meant_and_what_there_is() -> None:
    with pytest.raises(Invalid) as raised:
        providers.open(Provider(name="dfw", driver="opnstack"))
    assert raised.value.problems == (
        "provider dfw: driver `opnstack` is not installed; there are admin-node, docker, local, openstack; "
        "did you mean `openstack`?",
    )


@pytest.mark.parametrize(
    ("provider", "fault"),
    [
        (Provider(name="p", driver="local"), "key `directory` is missing"),
        (Provider(name="p", driver="local", options={"directory": "images"}), "must be an absolute path"),
        (
            Provider(name="p", driver="local", options={"directory": "/d", "directroy": "/d"}),
            "unknown key `directroy`; known here: directory",
        ),
        (Provider(name="p", driver="docker", format="qcow2"), "takes format tar, not qcow2"),
        (Provider(name="p", driver="docker", format="tar", options={"url": "/run/docker.sock"}), "unix://"),
        (Provider(name="p", driver="docker", format="tar", options={"repository": "Upper"}), "repository: must be"),
        (Provider(name="p"), "key `cloud` is missing"),
        (Provider(name="p", options={"cloud": "c", "region-name": 7}), "region-name: must be text"),
        (Provider(name="p", options={"cloud": "c", "use-import": "yes"}), "use-import: must be true or false"),
    ],
)
def test_what_is_wrong_with_options_is_said(provider: Provider, fault: str) -> None:
    (found,) = providers.faults(provider)
    assert fault in found


def test_openstack_leaves_alone_what_nodepool_has_for_its_launcher() -> None:
    options = {"cloud": "rax", "region-name": "DFW", "rate": 0.001, "boot-timeout": 120, "pools": []}
    assert providers.faults(Provider(name="rax-dfw", options=options)) == []


@pytest.mark.parametrize(("driver", "package"), [("openstack", "openstacksdk"), ("docker", "docker")])
def test_absent_packages_are_named_with_their_extra(driver: str, package: str) -> None:
    script = f"""
import sys
sys.modules[{driver!r}] = None  # what an import finds where it is not installed
from nodepool_ocb import providers
from nodepool_ocb.images.nodepool import Provider
options = {{"cloud": "c"}} if {driver!r} == "openstack" else {{}}
providers.open(Provider(name="p", driver={driver!r}, format="tar", options=options))
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert f"provider p: driver {driver} needs the Python package {package}" in ended.stderr
    assert f"nodepool-ocb[{driver}]" in ended.stderr


def test_a_command_without_a_cloud_loads_no_cloud_library() -> None:
    script = """
import sys
from nodepool_ocb import providers
from nodepool_ocb.images.nodepool import Provider
providers.installed()
providers.open(Provider(name="p", driver="local", options={"directory": "/nowhere"})).close()
print(sorted({"openstack", "docker", "requests"} & set(sys.modules)))
"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True, timeout=60) == "[]\n"


def test_opening_a_provider_asks_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", "/nowhere/clouds.yaml")
    providers.open(openstack_provider()).close()

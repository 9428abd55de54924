"""A nodepool.yaml as a launcher reads it: real files, each key, the keys that it refuses, and the parts that it leaves out."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.images import nodepool
from nodepool_ocb.pool.configuration import (
    LaunchProvider,
    PoolConfiguration,
    PoolLabel,
    PoolLabelPolicy,
    ProviderPool,
    StaticMachine,
)
from nodepool_ocb.pool.documents.reading import LaunchDrivers, pool_configuration
from nodepool_ocb.providers import launching
from tests.fixtures.corpora import CORPORA, needs
from tests.images.test_nodepool_faults import ANYTHING, places, story

CORPUS = CORPORA / "nodepool"
FILES = sorted(path.name for path in CORPUS.glob("*.yaml"))
DRIVERS = LaunchDrivers(names=frozenset({"static", "docker", "openstack", "test", "fake"}))


def read(path: Path, drivers: LaunchDrivers = DRIVERS) -> PoolConfiguration:
    return pool_configuration(nodepool.load(path, environ={}), str(path), drivers)


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """The launcher's reading of a text."""

    def load(text: str, drivers: LaunchDrivers = DRIVERS) -> PoolConfiguration:
        path = tmp_path / "nodepool.yaml"
        path.write_text(text)
        return read(path, drivers)

    return load


# -- real files --


@needs("nodepool")
@pytest.mark.parametrize("name", FILES or ["none"])
def test_a_real_file_loads_for_a_launcher(name: str) -> None:
    raw = yaml.safe_load((CORPUS / name).read_text())
    found = read(CORPUS / name)
    assert found.omitted == ()
    assert {label: policy.min_ready for label, policy in found.labels.items()} == {
        label["name"]: label.get("min-ready", 0) for label in raw.get("labels", [])
    }
    assert list(found.providers) == [section["name"] for section in raw["providers"]]
    for section in raw["providers"]:
        provider = found.providers[section["name"]]
        assert (provider.cloud, provider.region) == (section["cloud"], section["region-name"])
        assert provider.rate_seconds == section.get("rate", 0)
        assert provider.boot_seconds == section.get("boot-timeout", 60)
        assert provider.launch_seconds == section.get("launch-timeout", 3600)
        assert provider.launch_retries == section.get("launch-retries", 3)
        assert provider.max_concurrency == section.get("max-concurrency")
        assert list(provider.pools) == [pool["name"] for pool in section.get("pools", [])]
        for written_pool in section.get("pools", []):
            pool = provider.pools[written_pool["name"]]
            assert pool.limits == {"instances": written_pool["max-servers"]}
            assert pool.options.get("networks") == written_pool.get("networks")
            for label in written_pool["labels"]:
                made = pool.labels[label["name"]]
                assert (made.diskimage, made.options["flavor-name"]) == (label["diskimage"], label["flavor-name"])
                assert made.options["key-name"] == label["key-name"]
                image = next(each for each in section["diskimages"] if each["name"] == label["diskimage"])
                assert made.options.get("config-drive") == image.get("config-drive")


# -- keys --


def test_an_empty_file_is_an_empty_configuration(written: Any) -> None:
    assert written("") == PoolConfiguration()


def test_labels(written: Any) -> None:
    found = written("""\
max-hold-age: 7200
labels:
  - name: plain
  - {name: kept, min-ready: 2, max-ready-age: 3600, max-hold-age: 60}
  - {name: annealed, roles: [ntp, ntp, dns]}
  - {name: whole, anneal: true, deployment: ci, roles-timeout: 60, keep-failed: true, refresh-roles: true}
  - {name: off, anneal: false}
""")
    assert found.max_hold_age_seconds == 7200.0
    assert found.labels == {
        "plain": PoolLabelPolicy(name="plain"),
        "kept": PoolLabelPolicy(name="kept", min_ready=2, max_ready_age_seconds=3600.0, max_hold_age_seconds=60.0),
        "annealed": PoolLabelPolicy(name="annealed", annealed=True, roles=("ntp", "dns")),
        "whole": PoolLabelPolicy(
            name="whole", annealed=True, deployment="ci", roles_seconds=60.0,
            keep_failed=True,
        ),
        "off": PoolLabelPolicy(name="off"),
    }  # fmt: skip


@pytest.mark.parametrize("age", ["0", "-1"])
def test_a_hold_age_of_nothing_is_any_age(written: Any, age: str) -> None:
    assert written(f"max-hold-age: {age}").max_hold_age_seconds == 0.0


def test_limits_of_tenants_have_the_names_of_resources(written: Any) -> None:
    found = written("""\
tenant-resource-limits:
  - {tenant-name: a, max-servers: 5, max-cores: 10, max-ram: 4096, max-volumes: 2, max-volume-gb: 100, gpus: 1}
  - {tenant-name: b}
""")
    assert found.tenant_limits == {
        "a": {"instances": 5, "cores": 10, "ram": 4096, "volumes": 2, "volume-gb": 100, "gpus": 1},
        "b": {},
    }


def test_a_static_provider(written: Any) -> None:
    found = written("""\
labels: [{name: small}, {name: big}]
providers:
  - name: rack
    driver: static
    priority: 50
    pools:
      - name: main
        node-attributes: {rack: r1}
        nodes:
          - {name: n1.example.com, labels: small}
          - name: 192.0.2.7
            labels: [small, big]
            username: ci
            timeout: 13
            host-key-checking: no
            host-key: [ssh-ed25519 AAAA, ssh-rsa BBBB]
            connection-port: 2222
            connection-type: network_cli
            shell-type: sh
            max-parallel-jobs: 2
            python-path: /usr/bin/python3
      - name: old
        priority: 7
        nodes: [{name: n3, labels: small big, ssh-port: 22022, host-key: ssh-rsa CCCC}]
""")
    pools = found.providers["rack"].pools
    assert found.providers["rack"].driver == "static"
    assert pools["main"] == ProviderPool(
        name="main",
        provider="rack",
        priority=50,
        node_attributes={"rack": "r1"},
        labels={name: PoolLabel(name=name, resources={"instances": 1.0}) for name in ("small", "big")},
        machines=(
            StaticMachine(name="n1.example.com", labels=("small",)),
            StaticMachine(
                name="192.0.2.7", labels=("small", "big"), username="ci", timeout_seconds=13.0, host_key_checking=False,
                host_keys=("ssh-ed25519 AAAA", "ssh-rsa BBBB"), port=2222, connection_type="network_cli", shell_type="sh",
                slots=2, python_path="/usr/bin/python3",
            ),
        ),
    )  # fmt: skip
    assert pools["old"].priority == 7
    assert pools["old"].machines == (
        StaticMachine(name="n3", labels=("small", "big"), port=22022, host_keys=("ssh-rsa CCCC",)),
    )


def test_a_cloud_with_its_images_and_pools(written: Any) -> None:
    found = written("""\
diskimages: [{name: i}]
labels: [{name: l}, {name: m}, {name: n}]
providers:
  - name: p
    cloud: c
    region-name: r
    rate: '0.5'
    max-concurrency: 0
    boot-timeout: 120
    launch-timeout: 600
    launch-retries: 0
    hostname-format: 'x-{node.id}'
    image-name-format: '{image_name}-{timestamp}'
    nodepool-id: old
    diskimages: [{name: i, config-drive: true, connection-type: winrm}]
    cloud-images:
      - {name: debian, image-id: abc, username: debian, python-path: /p, shell-type: cmd, connection-port: 2022}
      - {name: ubuntu}
    pools:
      - name: main
        max-servers: 0
        max-cores: 8
        max-ram: 1024
        max-volumes: 3
        max-volume-gb: 30
        max-ready-age: 60
        ignore-provider-quota: true
        host-key-checking: false
        networks: [n1]
        labels:
          - {name: l, diskimage: i, min-ram: 1, host-key-checking: true}
          - {name: m, cloud-image: debian, flavor-name: f, networks: [n2]}
          - {name: n, cloud-image: ubuntu, flavor-name: f}
""")
    provider = found.providers["p"]
    assert (provider.driver, provider.cloud, provider.region) == ("openstack", "c", "r")
    assert (provider.rate_seconds, provider.max_concurrency, provider.launch_retries) == (0.5, 0, 1)
    assert (provider.boot_seconds, provider.launch_seconds) == (120.0, 600.0)
    assert provider.hostname_format == "x-{node.id}"
    assert provider.options == {}
    pool = provider.pools["main"]
    assert pool.limits == {"instances": 0, "cores": 8, "ram": 1024, "volumes": 3, "volume-gb": 30}
    assert (pool.priority, pool.max_age_seconds, pool.ignore_provider_quota) == (100, 60.0, True)
    assert pool.options == {"networks": ["n1"]}
    one = {"instances": 1.0}
    assert pool.labels == {
        "l": PoolLabel(
            name="l", diskimage="i", connection_type="winrm", connection_port=5986, resources=one,
            options={"config-drive": True, "min-ram": 1},
        ),
        "m": PoolLabel(
            name="m", cloud_image="debian", username="debian", python_path="/p", shell_type="cmd", connection_port=2022,
            host_key_checking=False, resources=one, options={"image-id": "abc", "flavor-name": "f", "networks": ["n2"]},
        ),
        "n": PoolLabel(
            name="n", cloud_image="ubuntu", host_key_checking=False, resources=one,
            options={"image-name": "ubuntu", "flavor-name": "f"},
        ),
    }  # fmt: skip


def test_a_provider_of_another_driver_has_limits_and_options_of_its_own(written: Any) -> None:
    found = written("""\
providers:
  - name: d
    driver: docker
    url: unix:///run/docker.sock
    max-servers: 4
    max-resources: {gpu: 1}
    pools: [{name: main, max-resources: {gpu: 2}, labels: [{name: l, cloud-image: debian, username: root, cores: 2}, m]}]
""")
    provider = found.providers["d"]
    assert provider.limits == {"instances": 4, "gpu": 1}
    assert provider.options == {"url": "unix:///run/docker.sock"}
    assert provider.pools["main"].limits == {"gpu": 2}
    label = provider.pools["main"].labels["l"]
    assert (label.username, label.options) == ("root", {"image-name": "debian", "cores": 2})
    assert set(provider.pools["main"].labels) == set(found.labels) == {"l", "m"}


def test_a_cloud_with_the_name_of_a_fake_is_a_fake(written: Any) -> None:
    found = written("providers: [{name: fake-provider, cloud: fake}, {name: fake-rack, driver: static}]")
    assert {name: provider.driver for name, provider in found.providers.items()} == {
        "fake-provider": "fake",
        "fake-rack": "static",
    }


def test_a_driver_tells_the_resources_of_a_label(written: Any) -> None:
    def resources(provider: LaunchProvider, label: PoolLabel) -> dict[str, float]:
        return {"cores": float(label.options["cores"]), "ram": float(len(provider.name))}

    drivers = LaunchDrivers(names=frozenset({"docker"}), resources=resources)
    found = written(
        "providers: [{name: d, driver: docker, pools: [{name: m, labels: [{name: l, cores: 2}]}]}]", drivers
    )
    assert found.providers["d"].pools["m"].labels["l"].resources == {"cores": 2.0, "ram": 1.0}


# -- keys that are refused --


def problems(path: Path, text: str, drivers: LaunchDrivers = DRIVERS) -> list[str]:
    """The faults of a text, as ``LINE: PATH: sentence``."""
    path.write_text(text)
    with pytest.raises(Invalid) as caught:
        read(path, drivers)
    return [problem.replace(f"{path}:", "") for problem in caught.value.problems]


@pytest.mark.parametrize(("text", "wanted"), story("../pool/pool_reading_faults.txt"))
def test_a_refused_key_is_named_with_its_line_and_the_next_step(tmp_path: Path, text: str, wanted: str) -> None:
    assert problems(tmp_path / "nodepool.yaml", text) == [wanted]


def test_a_key_that_a_driver_refuses_has_its_line(tmp_path: Path) -> None:
    def faults(provider: LaunchProvider) -> list[str]:
        assert provider.options == {"odd": 1}
        return ["pools[m].labels[l].flavour: unknown key", "odd: is too odd", "lacks url: add it"]

    text = """\
providers:
  - name: d
    driver: docker
    odd: 1
    pools:
      - name: m
        labels:
          - name: l
            flavour: x
"""
    drivers = LaunchDrivers(names=frozenset({"docker"}), faults=faults)
    assert problems(tmp_path / "nodepool.yaml", text, drivers) == [
        "9: providers[d].pools[m].labels[l].flavour: unknown key",
        "4: providers[d].odd: is too odd",
        "2: providers[d]: lacks url: add it",
    ]


# -- parts that are left out --


def test_pools_of_other_drivers_are_left_out_and_named(written: Any, tmp_path: Path) -> None:
    found = written("""\
diskimages: [{name: i}]
labels: [{name: here}, {name: both}, {name: there}]
providers:
  - {name: shelf, driver: local, directory: /srv, diskimages: [{name: i}]}
  - name: ec2
    driver: aws
    region-name: r
    pools: [{name: main, labels: [{name: both, instance-type: t}, {name: there, instance-type: t}]}]
  - name: rack
    driver: static
    pools: [{name: main, nodes: [{name: n, labels: [here, both]}]}]
""")
    assert list(found.providers) == ["rack"]
    assert found.omitted == (
        f"{tmp_path}/nodepool.yaml:5: providers[ec2]: no driver `aws` launches here, so its pools are left out;"
        " no pool here offers there",
    )
    assert [provider.name for provider in nodepool.load(tmp_path / "nodepool.yaml", environ={}).providers] == [
        "shelf",
        "ec2",
        "rack",
    ]


def test_the_shipped_example_of_a_static_pool_loads(written: Any) -> None:
    shipped = (Path(__file__).parents[2] / "etc/nodepool.yaml").read_text()
    pool = shipped.partition("  # - name: rack\n")[2]
    rack, _, labels = pool.partition("\n# labels:\n")
    lines = ["providers:", "  - name: rack", *(line.replace("  # ", "  ", 1) for line in rack.splitlines())]
    lines += ["labels:", *(line.removeprefix("# ") for line in labels.splitlines())]
    found = written("\n".join(lines))
    assert [(machine.name, machine.slots) for machine in found.providers["rack"].pools["main"].machines] == [
        ("n1.example.com", 1),
        ("n2.example.com", 2),
    ]
    assert {name: label.roles for name, label in found.labels.items()} == {
        "lab": (),
        "big": ("ntp-client",),
        "board": (),
    }


def test_the_shipped_example_of_machines_of_the_fleet_loads(written: Any) -> None:
    shipped = (Path(__file__).parents[2] / "etc/nodepool.yaml").read_text()
    fleet = shipped.partition("  # - name: rack7\n")[2].partition("\n\n")[0]
    lines = ["providers:", "  - name: rack7", *(line.replace("  # ", "  ", 1) for line in fleet.splitlines())]
    lines += ["labels: [{name: board}]", "diskimages: [{name: debian-bookworm-metal}]"]
    pool = written("\n".join(lines), launching.drivers()).providers["rack7"].pools["main"]
    assert (pool.fleet, pool.options["selector"]) == (True, "tag:lab")
    assert pool.labels["board"].diskimage == "debian-bookworm-metal"
    assert pool.labels["board"].resources == {"instances": 1.0, "machines for board": 1.0}


@pytest.mark.parametrize(
    ("pool", "fault"),
    [
        ("labels: [{name: board, diskimage: i}]", "neither it nor its pool has `selector`"),
        ("selector: tag:lab, labels: [board]", "key `diskimage` is missing; name a disk image"),
        ("selector: 'tag:lab and', labels: [{name: board, diskimage: i}]", "pools[main].selector: selector"),
        ("selector: tag:lab, wipe: signatures, labels: [{name: board, diskimage: i}]", "pools[main].wipe: "),
        ("selector: tag:lab, color: red, labels: [{name: board, diskimage: i}]", "color"),
    ],
)
def test_a_pool_of_machines_of_the_fleet_is_refused_with_the_key(written: Any, pool: str, fault: str) -> None:
    text = f"""
        providers: [{{name: rack, driver: metal, pools: [{{name: main, {pool}}}]}}]
        labels: [{{name: board}}]
        diskimages: [{{name: i}}]
    """
    with pytest.raises(Invalid) as refused:
        written(text, launching.drivers())
    assert fault in str(refused.value)


# -- any document --

WHOLE: dict[str, Any] = {
    "max-hold-age": 5,
    "diskimages": [{"name": "i"}],
    "labels": [{"name": "l", "roles": ["r"], "deployment": "d", "anneal": True, "max-hold-age": 1}],
    "tenant-resource-limits": [{"tenant-name": "t", "max-cores": 1}],
    "providers": [
        {
            "name": "p",
            "cloud": "c",
            "rate": 1,
            "max-concurrency": 1,
            "hostname-format": "{node.id}",
            "diskimages": [{"name": "i", "connection-type": "winrm", "config-drive": True}],
            "cloud-images": [{"name": "d", "connection-port": 1}],
            "pools": [
                {
                    "name": "m",
                    "max-servers": 1,
                    "networks": ["n"],
                    "labels": [
                        {"name": "l", "diskimage": "i", "min-ram": 1},
                        {"name": "l", "cloud-image": "d", "flavor-name": "f"},
                    ],
                }
            ],
        },
        {
            "name": "d",
            "driver": "docker",
            "max-resources": {"gpu": 1},
            "cloud-images": [{"name": "x"}],
            "pools": [{"name": "m", "labels": ["l", {"name": "l", "cloud-image": "x", "connection-type": "ssh"}]}],
        },
        {
            "name": "s",
            "driver": "static",
            "pools": [{"name": "m", "nodes": [{"name": "n", "labels": ["l"], "host-key": ["k"], "timeout": 1}]}],
        },
        {"name": "a", "driver": "aws", "pools": [{"name": "m", "labels": [{"name": "l"}]}]},
    ],
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 200), ANYTHING), min_size=1, max_size=3))
def test_any_document_is_read_or_its_faults_have_lines(tmp_path: Path, changes: list[tuple[int, Any]]) -> None:
    value = copy.deepcopy(WHOLE)
    for number, anything in changes:
        holder, key = (found := places(value))[number % len(found)]
        holder[key] = copy.deepcopy(anything)
        if not places(value):
            return
    path = tmp_path / "nodepool.yaml"
    path.write_text(yaml.safe_dump(value))
    problems: tuple[str, ...] = (f"{path}:",)
    try:
        read(path)
    except Invalid as wrong:
        problems = wrong.problems
    assert problems
    assert all(problem.startswith(f"{path}:") for problem in problems)


def test_a_secure_file_has_no_pools(tmp_path: Path) -> None:
    path, secure = tmp_path / "nodepool.yaml", tmp_path / "secure.yaml"
    path.write_text("providers: [{name: p, driver: test}]")
    secure.write_text("providers: [{name: p, pools: 5, token: x}]")
    with pytest.raises(Invalid, match=f"providers\\[p\\].pools: `pools` is no secret; move it to {path}"):
        nodepool.load(path, secure, environ={})

"""Driver docker of machines: containers of a real engine, reached over ssh."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from nodepool_ocb import providers
from nodepool_ocb.config import Settings, SshSettings
from nodepool_ocb.errors import Unavailable
from nodepool_ocb.jigs.jig import Order, Succeeded
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.model.records import Node, Role
from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.keyscan import host_keys
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineStamp
from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.hostimage import sshd_tar
from tests.providers.machines.orders import made, new_order, new_stamp, opened, refused
from tests.providers.sites import docker_provider, new_item, sent

LABEL = PoolLabel(name="small", diskimage="debian")


class Harbour:
    """A provider of containers, and orders to it. The containers of its tests are gone in the end."""

    def __init__(self, engine: Engine, network: str, image: str, key: Path, until: Callable[..., None]) -> None:
        self.until = until
        self.engine, self.image, self.key = engine, image, key
        self.cluster = f"cluster-{new_stamp().key}"
        self.options: dict[str, Any] = {"network": network}
        self.provider = self.open()

    def open(self) -> MachineCalls:
        return opened(self.configured())

    def configured(self) -> LaunchProvider:
        pool = ProviderPool(name="main", provider="p", labels={"small": LABEL}, options=self.options)
        return LaunchProvider(name="p", driver="docker", pools={"main": pool}, options={"url": self.engine.url})

    def order(self, label: PoolLabel = LABEL, **fields: Any) -> MachineOrder:
        pool = ProviderPool(name="main", provider="p", labels={"small": label}, options=self.options)
        own = self.key.with_suffix(".pub").read_text().strip()
        fields = {"image": self.image, "stamp": new_stamp(cluster=self.cluster), "public_keys": (own,)} | fields
        return new_order(label, pool=pool, **fields)

    def listed(self) -> list[Machine]:
        return [each for each in self.provider.list() if each.stamp and each.stamp.cluster == self.cluster]

    def sh(self, machine: Machine, command: str, user: str = "zuul", key: Path | None = None) -> str:
        """The output of a command over ssh, with the host keys of the machine pinned."""
        known = self.key.with_name(f"known-{machine.external_id[:12]}")
        assert machine.address is not None
        assert machine.port is not None
        self.await_sshd(machine)
        keys = host_keys(machine.address, machine.port, 10.0)
        assert isinstance(keys, tuple), keys
        known.write_text(
            "".join(f"[{machine.address}]:{machine.port} {each}\n{machine.address} {each}\n" for each in keys)
        )
        ssh = [
            "ssh",
            "-F",
            "none",
            "-o",
            "BatchMode=yes",
            "-o",
            f"UserKnownHostsFile={known}",
            "-i",
            str(key or self.key),
        ]
        ssh += ["-p", str(machine.port), f"{user}@{machine.address}", command]
        done = subprocess.run(ssh, check=False, capture_output=True, text=True, timeout=60)
        print(done.stderr)  # pytest shows it where the test fails
        done.check_returncode()
        return done.stdout

    def await_sshd(self, machine: Machine) -> None:
        self.until(lambda: isinstance(host_keys(machine.address or "", machine.port or 22, 5.0), tuple))


@pytest.fixture
def harbour(engine: Engine, network: str, image: str, login_key: Path, until: Callable[..., None]) -> Iterator[Harbour]:
    harbour = Harbour(engine, network, image, login_key, until)
    yield harbour
    for machine in harbour.listed():
        assert machine.stamp is not None
        assert harbour.provider.delete(machine.external_id, machine.stamp) is None


def test_a_container_is_launched_reached_found_listed_and_deleted(harbour: Harbour) -> None:
    order = harbour.order()
    machine = made(harbour.provider.create(order))
    assert (machine.state, machine.stamp, machine.port) == ("running", order.stamp, 22)
    assert machine.name == f"small-p-{order.stamp.node}-{order.stamp.key}"
    assert harbour.sh(machine, "echo $USER; hostname") == f"zuul\nsmall-p-{order.stamp.node}\n"
    assert harbour.provider.find(order.stamp) == machine
    assert harbour.provider.look(machine.external_id) == machine
    assert [each.external_id for each in harbour.listed()] == [machine.external_id]
    assert harbour.provider.delete(machine.external_id, order.stamp) is None
    assert harbour.provider.delete(machine.external_id, order.stamp) is None
    assert harbour.provider.find(order.stamp) is None
    assert harbour.provider.look(machine.external_id) is None
    assert harbour.listed() == []


def test_a_role_runs_in_a_container_that_is_a_node(harbour: Harbour) -> None:
    machine = made(harbour.provider.create(harbour.order(username="root")))
    harbour.await_sshd(machine)
    keys = host_keys(machine.address or "", machine.port or 0, 10.0)
    assert isinstance(keys, tuple)
    node = Node(addresses=(f"{machine.address}:{machine.port}",), host_keys=keys)
    jig = ScriptJig(Settings(ssh=SshSettings(key_files=(str(harbour.key),))))
    role = Role(barclamp="b", jig="script", script="hostname; write_attribute example/done yes")
    order = Order(
        node="n1.example.com",
        record=node,
        role="r",
        definition=role,
        generation=1,
        epoch=1,
        run="run-1",
        timeout_seconds=60.0,
    )
    outcome = jig.run(order, threading.Event())
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.written == {"example": {"done": "yes"}}


def test_a_container_of_an_upload_of_the_driver_of_images_runs(harbour: Harbour, tmp_path: Path) -> None:
    uploader = providers.open(docker_provider(harbour.engine.url))
    item = new_item(sshd_tar(tmp_path / "image.tar", etc__motto="uploaded\n"), "tar", str(tmp_path))
    upload = sent(uploader.upload(item))
    machine = made(harbour.provider.create(harbour.order(image=upload)))
    assert harbour.sh(machine, "cat /etc/motto") == "uploaded\n"
    assert machine.stamp is not None
    assert harbour.provider.delete(machine.external_id, machine.stamp) is None
    assert uploader.delete(upload, item.stamp) is None


def test_each_container_has_host_keys_of_its_own(harbour: Harbour) -> None:
    machines = [made(harbour.provider.create(harbour.order())) for _ in range(2)]
    for machine in machines:
        harbour.await_sshd(machine)
    first, second = (host_keys(each.address or "", each.port or 0, 10.0) for each in machines)
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert len(first) == 2
    assert not set(first) & set(second)


def test_the_limits_of_a_label_are_cgroup_limits(harbour: Harbour) -> None:
    label = replace(LABEL, options={"memory": 96, "cpu": 0.5, "pids": 200})
    machine = made(harbour.provider.create(harbour.order(label)))
    (inspected,) = json.loads(harbour.engine.run("inspect", machine.external_id))
    host = inspected["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]) == (
        96 << 20,
        96 << 20,
        5 * 10**8,
        200,
    )
    assert launching.resources(harbour.configured(), label) == {"instances": 1, "cores": 0.5, "ram": 96}


def test_variables_are_in_the_container_and_in_logins(harbour: Harbour) -> None:
    variables = [{"name": "COLOUR", "value": "sky blue"}, {"name": "SHAPE", "value": "$round; 'x'"}]
    machine = made(harbour.provider.create(harbour.order(replace(LABEL, options={"env": variables}))))
    assert harbour.sh(machine, 'printf "%s\\n" "$COLOUR" "$SHAPE"') == "sky blue\n$round; 'x'\n"
    assert "COLOUR=sky blue" in harbour.engine.run("exec", machine.external_id, "env")


def test_keys_of_the_order_and_of_the_file_are_authorized(harbour: Harbour, tmp_path: Path) -> None:
    keys = []
    for name in ("order", "pool", "label"):
        keys.append(tmp_path / name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys[-1])], check=True)
    order_key, pool_key, label_key = (key.with_suffix(".pub").read_text().strip() for key in keys)
    harbour.options["authorized-keys"] = [pool_key]
    label = replace(LABEL, options={"authorized-keys": [label_key]})
    machine = made(harbour.provider.create(harbour.order(label, public_keys=(order_key,), username="root")))
    for key in keys:
        assert harbour.sh(machine, "echo in", "root", key) == "in\n"


def test_no_other_key_is_authorized(harbour: Harbour) -> None:
    machine = made(harbour.provider.create(harbour.order(public_keys=())))
    with pytest.raises(subprocess.CalledProcessError):
        harbour.sh(machine, "echo in")


def test_a_published_port_is_the_one_to_connect_to(harbour: Harbour) -> None:
    harbour.options["publish"] = "127.0.0.1"
    machine = made(harbour.provider.create(harbour.order()))
    assert machine.address == "127.0.0.1"
    assert machine.port != 22
    assert harbour.sh(machine, "echo in") == "in\n"


def test_in_the_network_of_the_host_each_container_has_a_port(harbour: Harbour) -> None:
    harbour.options = {"network": "host"}
    machines = [made(harbour.provider.create(harbour.order())) for _ in range(2)]
    assert len({machine.port for machine in machines}) == 2
    for machine in machines:
        assert harbour.sh(machine, "echo in") == "in\n"


@pytest.mark.parametrize("part", MachineStamp.__struct_fields__)
def test_a_container_with_another_stamp_is_not_removed(part: str, harbour: Harbour) -> None:
    machine = made(harbour.provider.create(harbour.order()))
    assert machine.stamp is not None
    other = replace(machine.stamp, **{part: "other"})
    assert "another stamp" in refused(harbour.provider.delete(machine.external_id, other))
    assert harbour.provider.find(other) is None
    assert made(harbour.provider.look(machine.external_id)).state == "running"


def test_the_volumes_of_an_image_go_with_its_container(harbour: Harbour, tmp_path: Path) -> None:
    volumes = harbour.engine.run("volume", "ls", "-q")
    file = sshd_tar(tmp_path / "image.tar")
    image = harbour.engine.run("import", "--change", "VOLUME /data", str(file)).strip()
    order = harbour.order(image=image)
    machine = made(harbour.provider.create(order))
    assert harbour.engine.run("volume", "ls", "-q") != volumes
    assert harbour.provider.delete(machine.external_id, order.stamp) is None
    assert harbour.engine.run("volume", "ls", "-q") == volumes
    harbour.engine.run("rmi", image)


def test_containers_of_others_are_neither_listed_nor_removed(harbour: Harbour) -> None:
    container = harbour.engine.run("create", "--network=none", harbour.image, "/bin/sh").strip()
    assert container not in {each.external_id for each in harbour.provider.list()}
    refused(harbour.provider.delete(container, new_stamp()))
    assert made(harbour.provider.look(container)).stamp is None
    harbour.engine.run("rm", container)


def test_properties_are_labels_that_cannot_replace_the_stamp(harbour: Harbour) -> None:
    order = harbour.order(properties={"team": "blue", "nodepool_ocb_node_key": "stolen"})
    machine = made(harbour.provider.create(order))
    (inspected,) = json.loads(harbour.engine.run("inspect", machine.external_id))
    assert inspected["Config"]["Labels"].items() >= {**order.stamp.labels, "team": "blue"}.items()


CREATE = """
import os, signal, sys
from docker.api.container import ContainerApiMixin
from msgspec.json import decode
from nodepool_ocb.pool.configuration import LaunchProvider
from nodepool_ocb.providers.machines import MachineStamp
from tests.providers.machines.orders import new_order, opened
provider, stamp = decode(sys.argv[1], type=LaunchProvider), decode(sys.argv[2], type=MachineStamp)
ContainerApiMixin.start = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
pool = provider.pools["main"]
opened(provider).create(new_order(pool.labels["small"], pool=pool, stamp=stamp, image=sys.argv[3]))
"""


def test_a_launcher_killed_between_creation_and_start_leaves_a_container_that_find_starts(harbour: Harbour) -> None:
    stamp = new_stamp(cluster=harbour.cluster)
    harbour.options["authorized-keys"] = [harbour.key.with_suffix(".pub").read_text().strip()]
    texts = [msgspec.json.encode(each).decode() for each in (harbour.configured(), stamp)]
    ended = subprocess.run([sys.executable, "-c", CREATE, *texts, harbour.image], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    (left,) = harbour.listed()
    assert left.state == "building"
    found = made(harbour.provider.find(stamp))
    assert (found.external_id, found.state) == (left.external_id, "running")
    assert harbour.sh(found, "echo in") == "in\n"


def test_a_container_that_ends_is_failed_with_its_last_words(harbour: Harbour) -> None:
    machine = made(harbour.provider.create(harbour.order(username="stranger")))
    harbour.until(lambda: made(harbour.provider.look(machine.external_id)).state == "failed")
    failed = made(harbour.provider.look(machine.external_id))
    assert failed.address is None
    assert "exit code 1: " in (failed.fault or "")
    assert "the image has no user stranger" in (failed.fault or "")


def test_an_image_that_does_not_exist_is_a_fault_of_the_request(harbour: Harbour) -> None:
    assert "No such image" in refused(
        harbour.provider.create(harbour.order(image=f"sha256:{'0' * 64}")), LaunchParty.REQUEST
    )
    assert "no image" in refused(harbour.provider.create(harbour.order(image=None)), LaunchParty.REQUEST)


def test_an_image_that_no_builder_uploaded_is_named_by_the_label(harbour: Harbour) -> None:
    label = PoolLabel(name="small", options={"image-name": harbour.image})
    assert made(harbour.provider.create(harbour.order(label, image=None))).state == "running"


def test_an_engine_has_no_quota(harbour: Harbour) -> None:
    quota = harbour.provider.quota()
    assert isinstance(quota, ProviderQuota)
    assert (quota.limits, quota.foreign) == ({}, {})


def test_where_no_engine_listens_the_provider_is_at_fault() -> None:
    provider = opened(LaunchProvider(name="p", driver="docker", options={"url": "tcp://127.0.0.1:9"}))
    refused(provider.find(new_stamp()), LaunchParty.PROVIDER)
    refused(provider.look("x"), LaunchParty.PROVIDER)
    with pytest.raises(Unavailable):
        provider.list()


@pytest.mark.parametrize(
    ("provider_options", "pool_options", "label", "fault"),
    [
        ({"ulr": "x"}, {}, LABEL, "ulr: unknown key `ulr`; did you mean `url`?"),
        ({}, {"network": "a b"}, LABEL, "pools[main].network: must be the name of a network"),
        ({}, {"network": "host", "publish": "127.0.0.1"}, LABEL, "pools[main].publish: has no effect"),
        ({}, {}, replace(LABEL, options={"memory": "1g"}), "pools[main].labels[small].memory: must be a whole number"),
        ({}, {}, replace(LABEL, options={"flavor-name": "x"}), "pools[main].labels[small].flavor-name: unknown key"),
        (
            {},
            {},
            replace(LABEL, options={"env": [{"name": "A", "value": 'x" "B=1'}]}),
            "pools[main].labels[small].env.0.value: must be text without quotes",
        ),
        ({}, {}, PoolLabel(name="small"), "pools[main].labels[small]: has no image"),
    ],
)
def test_faults_of_options_are_named_with_their_path(
    provider_options: dict[str, Any], pool_options: dict[str, Any], label: PoolLabel, fault: str
) -> None:
    pool = ProviderPool(name="main", provider="p", labels={"small": label}, options=pool_options)
    provider = LaunchProvider(name="p", driver="docker", pools={"main": pool}, options=provider_options)
    (found,) = launching.faults(provider)
    assert found.startswith(fault)


def test_the_absent_package_is_named_with_its_extra() -> None:
    script = """
import sys
sys.modules["docker"] = None  # what an import finds where it is not installed
from nodepool_ocb.pool.configuration import LaunchProvider
from tests.providers.machines.orders import opened
opened(LaunchProvider(name="p", driver="docker"))
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert "driver docker needs the Python package docker; install nodepool-ocb[docker]" in ended.stderr

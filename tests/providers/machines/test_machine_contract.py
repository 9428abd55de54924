"""The promises of every driver that makes machines: those of the project, and the example of docs/providers.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.pool.configuration import LaunchProvider, PoolLabel, ProviderPool
from nodepool_ocb.pool.views import ProviderQuota
from nodepool_ocb.providers import launching
from nodepool_ocb.providers.calls import MachineCalls
from nodepool_ocb.providers.machines import LaunchParty, Machine, MachineOrder, MachineStamp
from nodepool_ocb.testing.engine import Engine
from tests.docs.pages import ROOT, Fate, blocks
from tests.metal.metal_site import MetalSite, PlayedTurns
from tests.providers.machines.orders import fake_provider, made, new_order, new_stamp, opened, refused

EGG: Final = (sys.executable, "-c", "from setuptools import setup; setup()", "--quiet")
MOST: Final = 6  # machines of the laboratory


class DriverCase:
    """A provider of some driver."""

    def __init__(self, provider: LaunchProvider, image: str | None = None) -> None:
        self.provider, self.image = provider, image
        self.calls: MachineCalls = opened(provider)
        self.cluster = f"cluster-{new_stamp().key}"
        self.questions: object = None  # of driver metal

    def order(self, **fields: Any) -> MachineOrder:
        pool = next(iter(self.provider.pools.values()), ProviderPool(name="main", provider="p"))
        label = next(iter(pool.labels.values()), PoolLabel(name="small"))
        return new_order(label, pool=pool, stamp=new_stamp(cluster=self.cluster), image=self.image, **fields)

    def listed(self) -> list[Machine]:
        return [each for each in self.calls.list() if each.stamp and each.stamp.cluster == self.cluster]


class Laboratory:
    """The HTTP service of the example. A context manager."""

    def __init__(self) -> None:
        lab = self
        self.machines: dict[str, dict[str, Any]] = {}

        class Service(BaseHTTPRequestHandler):
            def answer(self, status: int, value: Any = None) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                name = self.path.rpartition("/")[2]
                if self.path == "/limits":
                    self.answer(200, {"machines": MOST})
                elif self.path == "/machines":
                    self.answer(200, list(lab.machines.values()))
                else:
                    found = lab.machines.get(name)
                    self.answer(200 if found else 404, found)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if len(lab.machines) >= MOST:
                    self.answer(409)
                    return
                id = f"board-{len(lab.machines)}-{new_stamp().key}"
                lab.machines[id] = {**body, "id": id, "on": True, "address": "127.0.0.1"}
                self.answer(201, lab.machines[id])

            def do_DELETE(self) -> None:
                self.answer(200, lab.machines.pop(self.path.rpartition("/")[2], None))

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Laboratory:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the example of the page, installed as printed."""
    folder = tmp_path_factory.mktemp("example")
    printed = {block.word: block.text for block in blocks(ROOT / "docs/providers.md") if block.fate is Fate.FILE}
    for name, text in printed.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    site = folder / "acme-lab"
    subprocess.run([*EGG, "egg_info"], check=True, cwd=site)  # as pip does, which lacks the package wheel here
    return site


@pytest.fixture
def laboratory(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    """The service of the example, whose package this process finds."""
    monkeypatch.syspath_prepend(package)
    with Laboratory() as lab:
        yield lab
    sys.modules.pop("acme_lab", None)


@pytest.fixture
def metal(request: pytest.FixtureRequest) -> Iterator[DriverCase]:
    """A provider of driver metal, with machines of a cluster. The test plays the launcher's turns and the annealers."""
    labels = {"small": PoolLabel(name="small", diskimage="debian")}
    pool = ProviderPool(name="main", provider="p", labels=labels, options={"selector": "tag:lab"})
    case = DriverCase(LaunchProvider(name="p", driver="metal", pools={"main": pool}))
    with PlayedTurns(MetalSite(request.getfixturevalue("zk_session"), 5)) as turns:
        case.questions = turns.questions
        case.calls.join(turns.questions)
        yield case


@pytest.fixture(params=["acme-lab", "docker", "fake", "metal", "test"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DriverCase]:
    """A provider of each driver in turn."""
    if request.param == "docker":
        engine: Engine = request.getfixturevalue("engine")
        labels = {"small": PoolLabel(name="small", diskimage="debian")}
        options = {"network": request.getfixturevalue("network")}
        pool = ProviderPool(name="main", provider="p", labels=labels, options=options)
        provider = LaunchProvider(name="p", driver="docker", pools={"main": pool}, options={"url": engine.url})
        case = DriverCase(provider, request.getfixturevalue("image"))
    elif request.param == "metal":
        case = request.getfixturevalue("metal")
    elif request.param == "acme-lab":
        url = request.getfixturevalue("laboratory").url
        case = DriverCase(LaunchProvider(name="p", driver="acme-lab", options={"url": url}))
    else:
        case = DriverCase(fake_provider(request.param, directory=str(tmp_path)))
    yield case
    for machine in case.listed():
        assert machine.stamp is not None
        assert case.calls.delete(machine.external_id, machine.stamp) is None
    case.calls.close()


def test_a_machine_bears_its_stamp_from_its_creation_to_its_end(case: DriverCase, until: Callable[..., None]) -> None:
    order = case.order()
    machine = made(case.calls.create(order))
    assert machine.stamp == order.stamp
    assert made(case.calls.find(order.stamp)).external_id == machine.external_id
    assert [each.external_id for each in case.listed()] == [machine.external_id]
    until(lambda: made(case.calls.look(machine.external_id)).state == "running")
    assert made(case.calls.look(machine.external_id)).address
    assert case.calls.delete(machine.external_id, order.stamp) is None
    assert case.calls.find(order.stamp) is None
    assert case.calls.look(machine.external_id) is None
    assert case.listed() == []


def test_a_machine_that_is_gone_is_deleted_once_more_without_a_fault(case: DriverCase) -> None:
    order = case.order()
    machine = made(case.calls.create(order))
    assert case.calls.delete(machine.external_id, order.stamp) is None
    assert case.calls.delete(machine.external_id, order.stamp) is None


def test_a_machine_that_differs_in_one_part_of_its_stamp_is_not_deleted(case: DriverCase) -> None:
    order = case.order()
    machine = made(case.calls.create(order))
    for part in MachineStamp.__struct_fields__:
        other = replace(order.stamp, **{part: "other"})
        assert case.calls.find(other) is None, part
        refused(case.calls.delete(machine.external_id, other))
        assert made(case.calls.look(machine.external_id)).stamp == order.stamp, part


def test_several_are_made_at_once_and_each_has_an_id_of_its_own(case: DriverCase) -> None:
    orders = [case.order() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        machines = [made(machine) for machine in pool.map(case.calls.create, orders)]
    assert len({machine.external_id for machine in machines}) == 4
    assert {machine.stamp for machine in case.listed()} == {order.stamp for order in orders}


def test_another_launcher_finds_the_machine(case: DriverCase) -> None:
    order = case.order()
    machine = made(case.calls.create(order))
    successor = opened(case.provider)
    successor.join(case.questions)
    assert made(successor.find(order.stamp)).external_id == machine.external_id
    successor.close()


def test_further_properties_do_not_replace_the_stamp(case: DriverCase) -> None:
    order = case.order(properties={"team": "blue", "nodepool_ocb_node_key": "other"})
    assert made(case.calls.create(order)).stamp == order.stamp


def test_the_quota_is_told(case: DriverCase) -> None:
    assert isinstance(case.calls.quota(), ProviderQuota)


def test_the_example_tells_a_full_laboratory_as_a_quota(laboratory: Laboratory) -> None:
    case = DriverCase(LaunchProvider(name="p", driver="acme-lab", options={"url": laboratory.url}))
    for _ in range(MOST):
        made(case.calls.create(case.order()))
    refused(case.calls.create(case.order()), LaunchParty.QUOTA)
    quota = case.calls.quota()
    assert isinstance(quota, ProviderQuota)
    assert quota.limits == {"instances": MOST}


def test_the_example_is_found_and_tells_faults_and_resources(laboratory: Laboratory) -> None:
    assert laboratory.url
    assert "acme-lab" in launching.installed().usable
    (fault,) = launching.faults(LaunchProvider(name="p", driver="acme-lab"))
    assert fault == "url: must be the address of the laboratory; write url: https://HOST/"
    label = PoolLabel(name="board")
    provider = LaunchProvider(name="p", driver="acme-lab")
    assert launching.resources(provider, label) == {"instances": 1, "cores": 2, "ram": 2048}


def test_a_laboratory_that_does_not_answer_is_a_fault_of_the_provider(laboratory: Laboratory) -> None:
    assert laboratory.url
    calls = opened(LaunchProvider(name="p", driver="acme-lab", options={"url": "http://127.0.0.1:9/"}))
    refused(calls.find(new_stamp()), LaunchParty.PROVIDER)


def test_config_check_accepts_a_pool_of_the_example(laboratory: Laboratory, package: Path, tmp_path: Path) -> None:
    (printed,) = (block.text for block in blocks(ROOT / "docs/providers.md") if "driver: acme-lab" in block.text)
    file = tmp_path / "nodepool.yaml"
    file.write_text("labels:\n  - name: board\n" + printed.replace("http://lab.example.com/", laboratory.url))
    command = [str(ROOT / ".venv/bin/nodepool-ocb"), "config", "check", "--offline", "--nodepool", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no driver" not in done.stdout + done.stderr

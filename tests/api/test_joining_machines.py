"""Machines that join, over a real server: registration, adoption, their own tokens, strangers and races."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import pytest
from msgspec.structs import replace

from nodepool_ocb.catalogue import files
from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.joining import Inventory, MachineRegistration
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.model.records import Create, Delete, Node, NodeRole, Set, State
from nodepool_ocb.operations.barclamps.importing import BarclampImport
from nodepool_ocb.operations.joining.registering import RegistrationPoll
from nodepool_ocb.provisioning import registrations
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.api.served import ServedApi, problem

GIB: Final = 1024**3
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEx4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
FACTS: Final = {"memory": 64 * GIB, "cpus": 16, "serial": "S7", "disks": [{"name": "sda", "size": 500 * GIB}]}


class JoiningMachine:
    """A machine in the discovery environment; each has MACs of its own."""

    made = 0

    def __init__(self, api: ServedApi, token: str, **facts: Any) -> None:
        JoiningMachine.made += 1
        self.mac = f"52:54:00:00:{JoiningMachine.made >> 8:02x}:{JoiningMachine.made & 255:02x}"
        self.macs = [self.mac]
        self.facts = {**FACTS, **facts}
        self.secret = ""
        self.address = f"127.1.{JoiningMachine.made >> 8}.{JoiningMachine.made & 255}"
        self._api, self._token = api, token

    def register(self) -> httpx.Response:
        """The whole answer."""
        body = {"macs": self.macs, "inventory": self.facts, "host_keys": [KEY], "secret": self.secret}
        answer = self._ask("/v1/registrations", body)
        if answer.status_code == 200:
            self.secret = answer.json()["answer"]["secret"] or self.secret
        return answer

    def poll(self) -> dict[str, Any]:
        answer = self._ask(f"/v1/registrations/{self.mac}/poll", {"secret": self.secret})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["answer"]
        return found

    def _ask(self, path: str, body: Any) -> httpx.Response:
        """From an address of its own: one machine is one node."""
        with httpx.Client(transport=httpx.HTTPTransport(local_address=self.address), timeout=60.0) as client:
            return client.post(
                f"{self._api.address}{path}", json=body, headers={"Authorization": f"Bearer {self._token}"}
            )


@pytest.fixture(scope="module")
def cluster(api: ServedApi, tmp_path_factory: pytest.TempPathFactory) -> ServedApi:
    """A deployment, and two roles without a machine."""
    role = tmp_path_factory.mktemp("barclamps") / "base.yml"
    role.write_text(
        "barclamp: {name: join, version: 1}\nroles:\n  - {name: burn-in, jig: noop}\n  - {name: work, jig: noop}\n"
    )
    api.direct.perform(BarclampImport(files=files.read([role])))
    api.call("deployment/create", {"name": "lab"})
    return api


@pytest.fixture(scope="module")
def join(api: ServedApi) -> str:
    return api.direct.token(name="join", role="join")


@pytest.fixture
def rule(cluster: ServedApi) -> Iterator[Any]:
    """Sets a rule, which goes after the test."""
    names: list[str] = []

    def made(name: str, *words: str) -> Any:
        names.append(name)
        return cluster.ask("PATCH", f"/v1/adoption-rules/{name}", {"assignments": list(words)})

    yield made
    for name in names:
        cluster.ask("DELETE", f"/v1/adoption-rules/{name}", {})


def record(api: ServedApi, kind: type[Any], path: str) -> Any:
    with Session(api.settings) as session:
        znode = session.get(path)
        return None if znode is None else codec.decode(kind, znode)


def test_a_waiting_machine_becomes_the_node_of_a_rule_that_is_set_later(
    cluster: ServedApi, join: str, rule: Any
) -> None:
    machine = JoiningMachine(cluster, join, serial="Q 1")
    assert machine.register().json()["answer"]["node"] is None
    assert machine.poll()["reason"] == "there is no rule of adoption"
    words = ("name=q-{serial}-{n:02}.example.com", "when=memory>=64G serial:'Q 1'", "deployment=lab", "tags=fast")
    answer = rule(
        "web", *words, "roles=work", "commission=burn-in", "commit=true", "labels.size=big", "allow_install=true"
    )
    assert answer.status_code == 200, answer.text
    [forecast] = [
        each for each in cluster.ask("GET", "/v1/adoption-check").json()["answer"] if each["mac"] == machine.mac
    ]
    assert (forecast["node"], forecast["rule"]) == ("q-q-1-01.example.com", "web")

    fqdn = machine.poll()["node"]
    assert fqdn == "q-q-1-01.example.com"
    node = record(cluster, Node, paths.node(fqdn))
    assert (node.deployment, node.tags, node.labels, node.macs) == ("lab", ("fast",), {"size": "big"}, (machine.mac,))
    assert (node.host_keys, node.addresses) == ((KEY,), (machine.address,))
    assert record(cluster, MacOwner, paths.mac(machine.mac)).node == fqdn
    assert record(cluster, Inventory, paths.inventory(fqdn)).facts.memory == 64 * GIB
    work = record(cluster, NodeRole, paths.noderole("work", fqdn))
    assert work.parents == (f"burn-in@{fqdn}",), "the roles wait for the commissioning ones"
    assert work.state is State.BLOCKED
    names = [each["name"] for each in cluster.ask("GET", "/v1/nodes?selector=memory>=64G disks=1").json()["answer"]]
    assert fqdn in names


def test_the_own_token_of_a_machine_opens_its_node_alone(cluster: ServedApi, join: str, rule: Any) -> None:
    rule("own", "name=own-{n}.example.com")
    machine, other = JoiningMachine(cluster, join), JoiningMachine(cluster, join)
    fqdn, foreign = (each.register().json()["answer"]["node"] for each in (machine, other))
    token = machine.poll()["token"]
    version = cluster.ask("GET", f"/v1/nodes/{fqdn}", token=token).headers["etag"]
    boot = {"boot_id": "0b0e7f1a-1111-2222-3333-444455556666"}
    alive = cluster.ask("POST", f"/v1/nodes/{fqdn}/alive", boot, token, If_Match=version)
    assert alive.status_code == 200, alive.text
    assert record(cluster, Node, paths.node(fqdn)).alive
    assert record(cluster, Inventory, paths.inventory(fqdn)).facts.boot_id == boot["boot_id"]
    assert cluster.ask("POST", f"/v1/nodes/{fqdn}/inventory", {"inventory": {"memory": 5}}, token).status_code == 200
    assert record(cluster, Inventory, paths.inventory(fqdn)).facts.memory == 5
    assert cluster.ask("POST", f"/v1/nodes/{fqdn}/going-down", {}, token).status_code == 200
    assert not record(cluster, Node, paths.node(fqdn)).alive
    absent = "none.example.com"
    for method, path, body in (
        ("GET", "/v1/nodes/{}", None),
        ("GET", "/v1/nodes/{}/facts", None),
        ("POST", "/v1/nodes/{}/going-down", {}),
        ("POST", "/v1/nodes/{}/inventory", {"inventory": {}}),
    ):
        refused = [cluster.ask(method, path.format(name), body, token) for name in (foreign, absent)]
        statuses = [problem(each)[:2] for each in refused]
        assert statuses[0] == statuses[1] == (404, "not-found"), (path, [each.text for each in refused])
        assert foreign not in refused[1].text
    assert problem(cluster.ask("GET", "/v1/nodes", token=token))[0] == 403
    assert problem(cluster.ask("POST", f"/v1/registrations/{machine.mac}/adopt", {"name": "x.y"}, token))[0] == 403


def test_a_machine_has_one_token_of_its_own_which_ends_with_the_next_and_with_its_node(
    cluster: ServedApi, join: str, rule: Any
) -> None:
    rule("one", "name=one-{n}.example.com")
    machine = JoiningMachine(cluster, join)
    fqdn = machine.register().json()["answer"]["node"]
    first, second = machine.poll()["token"], machine.poll()["token"]
    assert [cluster.ask("GET", f"/v1/nodes/{fqdn}", token=each).status_code for each in (first, second)] == [401, 200]
    cluster.call("node/delete", {"nodes": [fqdn]})
    machine.poll()
    assert cluster.ask("GET", f"/v1/nodes/{fqdn}", token=second).status_code == 401


def test_a_stranger_with_a_mac_of_a_waiting_machine_is_refused_and_named(cluster: ServedApi, join: str) -> None:
    machine = JoiningMachine(cluster, join)
    machine.register()
    stranger = JoiningMachine(cluster, join, memory=1)
    stranger.macs = [stranger.mac, machine.mac]
    assert problem(stranger.register())[:2] == (409, "conflict")
    guess = cluster.ask("POST", f"/v1/registrations/{machine.mac}/poll", {"secret": "00" * 32}, join)
    assert problem(guess)[0] == 403
    kept = record(cluster, MachineRegistration, paths.registration(machine.mac))
    assert kept.facts.memory == 64 * GIB
    assert registrations.knows(kept, machine.secret)
    [row] = [each for each in cluster.ask("GET", "/v1/registrations").json()["answer"] if each["mac"] == machine.mac]
    assert f"two machines with one MAC: {stranger.address} claimed it" in row["reason"]
    machine.facts["memory"] = 7
    assert machine.register().status_code == 200, "its own secret renews it"
    assert record(cluster, MachineRegistration, paths.registration(machine.mac)).facts.memory == 7


def test_a_stranger_with_the_mac_of_a_known_node_changes_nothing(cluster: ServedApi, join: str, rule: Any) -> None:
    rule("known", "name=known-{n}.example.com")
    first = JoiningMachine(cluster, join)
    fqdn = first.register().json()["answer"]["node"]
    assert cluster.ask("DELETE", f"/v1/registrations/{first.mac}", {}).status_code == 200
    before = record(cluster, Node, paths.node(fqdn))
    stranger = JoiningMachine(cluster, join)
    stranger.macs, stranger.mac = [first.mac], first.mac
    assert stranger.register().json()["answer"]["node"] is None
    assert record(cluster, Node, paths.node(fqdn)) == before
    assert f"node {fqdn} has its MAC and runs on a known machine" in stranger.poll()["reason"]
    adopted = cluster.ask("POST", f"/v1/registrations/{first.mac}/adopt", {"name": fqdn})
    assert adopted.status_code == 200, adopted.text
    assert stranger.poll()["node"] == fqdn, "a person says that it is the same machine"


def test_a_planned_node_waits_for_its_machine_without_a_rule(cluster: ServedApi, join: str) -> None:
    machine = JoiningMachine(cluster, join)
    hinted = cluster.ask(
        "POST", "/v1/node-hints", {"mac": machine.mac, "name": "planned.example.com", "deployment": "lab"}
    )
    assert hinted.status_code == 200, hinted.text
    assert machine.register().json()["answer"]["node"] == "planned.example.com"
    node = record(cluster, Node, paths.node("planned.example.com"))
    assert (node.host_keys, node.macs, node.addresses) == ((KEY,), (machine.mac,), (machine.address,))


def test_two_servers_at_one_moment_make_one_node(cluster: ServedApi, join: str, rule: Any) -> None:
    machines = [JoiningMachine(cluster, join, serial="race") for _ in range(3)]
    for each in machines:
        each.register()
    rule("race", "name=race-{n}.example.com", "when=serial:race")

    def one(machine: JoiningMachine) -> None:
        try:
            cluster.direct.perform(RegistrationPoll(mac=machine.mac, secret=machine.secret))
        except Stale:
            return  # another writer was faster each time

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, [*machines, *machines]))
    nodes = [each.poll()["node"] for each in machines]
    assert sorted(nodes) == [f"race-{number}.example.com" for number in (1, 2, 3)]
    assert [record(cluster, MacOwner, paths.mac(each.mac)).node for each in machines] == nodes


def test_the_flood_of_a_stranger_is_refused_and_the_machines_that_waited_stay(cluster: ServedApi, join: str) -> None:
    machine = JoiningMachine(cluster, join)
    machine.register()
    flood = cluster.direct.token(name="flood", role="join")
    with Session(cluster.settings) as session:
        now = session.now()
        full = MachineRegistration(macs=(), digest=tokens.digest("x"), by="flood", seen=now, since=now)
        made = [f"52:54:01:00:00:{number:02x}" for number in range(256)]
        for start in range(0, 256, 64):
            session.commit(
                [Create(paths.registration(mac), replace(full, macs=(mac,))) for mac in made[start : start + 64]]
            )
        try:
            refused = [JoiningMachine(cluster, flood).register() for _ in range(3)]
            assert [problem(each)[:2] for each in refused] == [(429, "too-many")] * 3
            assert JoiningMachine(cluster, join).register().status_code == 200, "another token has places of its own"
            assert machine.poll()["node"] is None
        finally:
            for start in range(0, 256, 64):
                session.commit([Delete(paths.registration(mac), 0) for mac in made[start : start + 64]])


def test_a_lost_secret_frees_its_mac_when_the_machine_is_silent(cluster: ServedApi, join: str) -> None:
    machine = JoiningMachine(cluster, join)
    machine.register()
    with Session(cluster.settings) as session:
        znode = session.get(paths.registration(machine.mac))
        assert znode is not None
        found = codec.decode(MachineRegistration, znode)
        silent = replace(found, seen=found.seen - registrations.SILENT_SECONDS)
        session.commit([Set(paths.registration(machine.mac), silent, znode.version)])
    machine.secret = ""
    assert machine.register().status_code == 200
    assert registrations.knows(record(cluster, MachineRegistration, paths.registration(machine.mac)), machine.secret)


def test_a_join_token_with_limits_makes_nodes_in_its_deployments_alone(cluster: ServedApi, rule: Any) -> None:
    rule("outside", "name=outside-{n}.example.com", "deployment=system")
    limited = cluster.direct.token(name="limited", role="join", deployments=("lab",))
    machine = JoiningMachine(cluster, limited)
    assert machine.register().json()["answer"]["node"] is None
    assert "outside: the join token is limited to lab" in machine.poll()["reason"]
    assert problem(cluster.ask("GET", "/v1/registrations", token=limited))[0] == 403


def test_an_inventory_that_is_too_large_is_refused(cluster: ServedApi, join: str) -> None:
    machine = JoiningMachine(cluster, join, more="x" * 70_000)
    assert problem(machine.register())[:2] == (413, "too-large")
    assert record(cluster, MachineRegistration, paths.registration(machine.mac)) is None

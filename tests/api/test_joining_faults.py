"""Faults between a machine and its server: lost answers, deleted nodes, leases, floods; and the cause in the journal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import MachineRegistration
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Create, Node
from nodepool_ocb.provisioning import registrations
from nodepool_ocb.store.client.session import Session
from tests.api.joining import JoiningMachine, record
from tests.api.served import ServedApi, problem


def test_a_lost_first_answer_does_not_lock_the_machine_out(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.secret = "5f" * 32  # that the machine has drawn
    assert machine.register().status_code == 200
    machine.facts["memory"] = 7  # its answer was lost: the machine registers again
    again = machine.register()
    assert (again.status_code, again.json()["answer"]["secret"]) == (200, None)
    kept = record(joinable, MachineRegistration, paths.registration(machine.mac))
    assert kept.facts.memory == 7
    assert registrations.knows(kept, machine.secret)
    assert machine.poll()["node"] is None


def test_a_short_secret_of_a_machine_is_replaced_by_one_of_the_server(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.secret = "1234"
    assert machine.register().status_code == 200
    assert len(machine.secret) == 64
    assert machine.poll()["node"] is None


def test_the_token_of_a_machine_opens_no_later_node_of_its_name(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("again", "name=again-{n}.example.com")
    machine = JoiningMachine(joinable, join_token)
    fqdn = machine.register().json()["answer"]["node"]
    token = machine.poll()["token"]
    assert joinable.ask("GET", f"/v1/nodes/{fqdn}", token=token).status_code == 200
    joinable.call("node/delete", {"nodes": [fqdn]}, agreed=True)
    assert record(joinable, Node, paths.node(fqdn)) is None
    other = JoiningMachine(joinable, join_token)
    assert other.register().json()["answer"]["node"] == fqdn
    before = record(joinable, Node, paths.node(fqdn))
    for method, path, body in (
        ("GET", f"/v1/nodes/{fqdn}", None),
        ("GET", f"/v1/nodes/{fqdn}/facts", None),
        ("POST", f"/v1/nodes/{fqdn}/inventory", {"inventory": {}}),
        ("POST", f"/v1/nodes/{fqdn}/going-down", {}),
    ):
        assert problem(joinable.ask(method, path, body, token))[:2] == (404, "not-found"), path
    assert record(joinable, Node, paths.node(fqdn)) == before
    own = other.poll()["token"]
    assert joinable.ask("GET", f"/v1/nodes/{fqdn}", token=own).status_code == 200
    assert joinable.ask("GET", f"/v1/nodes/{fqdn}", token=token).status_code == 404, "also after the read of another"


def test_the_journal_names_the_rule_that_made_a_node(joinable: ServedApi, join_token: str, adoption_rule: Any) -> None:
    adoption_rule("named", "name=named-{n}.example.com", "when=serial:NAMED")
    machine = JoiningMachine(joinable, join_token, serial="NAMED")
    fqdn = machine.register().json()["answer"]["node"]
    planned = JoiningMachine(joinable, join_token)
    joinable.ask("POST", "/v1/node-hints", {"mac": planned.mac, "name": "meant.example.com"})
    planned.register()
    rows = joinable.ask("GET", "/v1/history?limit=50").json()["answer"]["rows"]
    found = {name: each for each in rows for name in each.get("subjects", ())}
    assert found[fqdn]["login"] == "join"
    assert found[fqdn]["reason"] == f"rule of adoption named, machine {machine.mac}"
    assert found["meant.example.com"]["reason"] == f"machine {planned.mac}, for which this node was planned"


def test_a_lease_is_no_address_of_a_node_that_speaks_from_its_own(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    machine = JoiningMachine(joinable, join_token, serial="LEASE")
    ranges = {"dhcp": "127.9.0.100-127.9.0.199", "host": "127.9.0.10-127.9.0.99"}
    with Session(joinable.settings) as session:  # people may give no network the addresses of this host
        session.ensure(paths.NETWORKS)
        places = [paths.network("boot"), paths.network_addresses("boot")]
        session.commit([Create(places[0], Network(subnet="127.9.0.0/24", ranges=ranges)), Create(places[1])])
    adoption_rule("lease", "name=lease-{n}.example.com", "when=serial:LEASE", "network=boot")
    machine.address = "127.9.0.150"
    fqdn = machine.register().json()["answer"]["node"]
    node = record(joinable, Node, paths.node(fqdn))
    assert node.addresses == ("127.9.0.10", "127.9.0.150"), "until then it is reached by its lease"
    token = machine.poll()["token"]
    assert machine.alive(fqdn, token).status_code == 200
    assert record(joinable, Node, paths.node(fqdn)).addresses == node.addresses, "it speaks from its lease"
    machine.address = "127.9.0.10"
    assert machine.alive(fqdn, token).status_code == 200
    assert record(joinable, Node, paths.node(fqdn)).addresses == ("127.9.0.10",)


def test_a_machine_is_adopted_as_its_dry_run_said(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    fields = {"mac": machine.mac, "name": "said.example.com"}
    plan = joinable.call("node/adopt", fields, dry_run=True)[-1]["done"]["plan"]
    assert record(joinable, Node, paths.node("said.example.com")) is None
    done = joinable.ask("POST", "/v1/operations/node/adopt", {"fields": fields}, If_Match=f'"{plan}"')
    assert '"error"' not in done.text
    assert record(joinable, Node, paths.node("said.example.com")).macs == (machine.mac,)


def test_registrations_of_one_address_have_a_rate_and_others_go_on(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.macs = ["no MAC"]  # each request is refused, and counts
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: machine.register(), range(90)))
    codes = [each.status_code for each in answers]
    assert {*codes} == {422, 429}
    assert codes.count(422) >= 60
    refused = next(each for each in answers if each.status_code == 429)
    assert problem(refused)[:2] == (429, "too-many")
    assert f"too many registrations from {machine.address}: 60 at once" in refused.json()["detail"]
    assert refused.headers["retry-after"]
    assert JoiningMachine(joinable, join_token).register().status_code == 200

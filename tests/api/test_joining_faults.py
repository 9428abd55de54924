"""Faults and refusals between a machine and its server: lost answers, deleted nodes, leases, floods, guards, the journal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from nodepool_ocb.api.memory.rates import (
    MOST_SOURCES,
    POLLS_OF_ADDRESS,
    POLLS_OF_MACHINE,
    REGISTRATIONS_OF_TOKEN,
    Registering,
    RequestRate,
)
from nodepool_ocb.errors import TooMany
from nodepool_ocb.model import paths
from nodepool_ocb.model.joining import AdoptionRule, MachineRegistration
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Create, Delete, Node
from nodepool_ocb.provisioning.joining import registrations
from nodepool_ocb.store.client.session import Session
from tests.api.joining import KEY, JoiningMachine, record
from tests.api.served import ServedApi, problem


def test_a_lost_first_answer_does_not_lock_the_machine_out(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.secret = "5f" * 32  # that the machine has drawn
    assert machine.register().status_code == 200
    machine.secret = "5f" * 32  # its answer was lost: the machine registers again
    machine.facts["memory"] = 7
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


def said(answer: httpx.Response, status: int) -> str:
    """The sentence of a refusal."""
    assert answer.status_code == status, answer.text
    return str(answer.json()["detail"])


def test_a_registration_without_a_mac_or_with_many_host_keys_is_refused(joinable: ServedApi, join_token: str) -> None:
    bare, keyed = JoiningMachine(joinable, join_token), JoiningMachine(joinable, join_token)
    bare.macs, keyed.host_keys = [], [KEY] * 9
    assert "macs: there is none" in said(bare.register(), 422)
    assert "9 are more than a machine may have" in said(keyed.register(), 422)


def test_a_machine_of_two_nodes_or_outside_its_token_waits_with_the_reason(
    joinable: ServedApi, join_token: str
) -> None:
    two = JoiningMachine(joinable, join_token)
    two.macs = [two.mac, two.mac.replace("52:54", "52:56")]
    for number, mac in enumerate(two.macs):
        joinable.ask("POST", "/v1/node-hints", {"mac": mac, "name": f"two{number}.example.com"})
    assert two.register().json()["answer"]["node"] is None
    assert "its MACs belong to several nodes (two0.example.com, two1.example.com)" in two.poll()["reason"]
    outside = JoiningMachine(joinable, joinable.direct.token("lab-only", "register", deployments=("lab",)))
    joinable.ask("POST", "/v1/node-hints", {"mac": outside.mac, "name": "outside.example.com"})
    assert outside.register().json()["answer"]["node"] is None
    assert "node outside.example.com is outside the deployments of the join token" in outside.poll()["reason"]


def test_a_person_gives_no_machine_two_nodes_and_no_running_node_another_hint(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("once", "name=once-{n}.example.com", "when=serial:ONCE")
    machine = JoiningMachine(joinable, join_token, serial="ONCE")
    fqdn = machine.register().json()["answer"]["node"]
    second = joinable.ask("POST", f"/v1/registrations/{machine.mac}/adopt", {"name": "second.example.com"})
    assert f"machine {machine.mac} is node {fqdn}" in said(second, 409)
    hinted = joinable.ask("POST", "/v1/node-hints", {"mac": "52:57:00:00:00:01", "name": fqdn})
    assert f"node {fqdn} runs on a known machine" in said(hinted, 422)


def test_a_rule_without_a_name_of_unknown_things_or_above_the_most_is_refused(
    joinable: ServedApi, adoption_rule: Any
) -> None:
    assert "needs a template of names" in said(adoption_rule("bare", "when=*"), 422)
    assert "can be no name of a rule" in said(adoption_rule("A-b", "name=x.y"), 422)
    assert "role wrok does not exist" in said(adoption_rule("typo", "name=x.y", "roles=wrok"), 404)
    assert "deployment nowhere does not exist" in said(adoption_rule("typo", "name=x.y", "deployment=nowhere"), 404)
    places = [paths.adoption_rule(f"many-{number}") for number in range(100)]
    with Session(joinable.settings) as session:
        session.commit([Create(place, AdoptionRule(name="x.y", when="memory>1P")) for place in places])
        try:
            assert "there are 100 rules, the most" in said(adoption_rule("more", "name=x.y"), 422)
        finally:
            session.commit([Delete(place, 0) for place in places])


def test_the_news_of_a_machine_that_waits_fill_no_journal(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    newest = joinable.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]["number"]
    machine.facts["memory"] = 7
    assert machine.register().status_code == 200
    machine.poll()
    assert joinable.ask("GET", "/v1/history?limit=1").json()["answer"]["rows"][0]["number"] == newest


def test_the_rate_of_a_token_bounds_a_stranger_with_many_addresses() -> None:
    rates, most = Registering(lambda: 0.0), REGISTRATIONS_OF_TOKEN[0]
    for number in range(most):
        rates.take("stranger", f"address {number}")
    with pytest.raises(TooMany, match="too many registrations with token stranger"):
        rates.take("stranger", "one more address")
    rates.take("site", "one more address")
    rate = RequestRate(1, 1.0, "registrations from", lambda: 0.0)
    for number in range(MOST_SOURCES + 1):
        rate.take(f"address {number}")
    rate.take("address 0")  # forgotten, since so many came after it


def test_a_machine_that_asks_for_its_token_in_a_loop_is_slowed_down(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("loops", "name=loops-{n}.example.com")
    machine, third, other = (JoiningMachine(joinable, join_token) for _ in range(3))
    for each in (machine, third, other):
        each.register()
    resource = f"/v1/registrations/{machine.mac.upper()}/poll", {"secret": machine.secret}, machine
    operation = "/v1/operations/registration/poll", {"fields": {"mac": third.mac, "secret": third.secret}}, third
    for path, body, polled in (resource, operation):
        answered = 0
        while (limited := joinable.ask("POST", path, body, join_token)).status_code != 429:
            answered += 1
            assert answered < 100, "a slow host answers some more than the rate"
        assert answered >= POLLS_OF_MACHINE[0]
        assert limited.headers["retry-after"] == "1"
        assert f"too many polls of machine {polled.mac}" in limited.text
    assert other.poll()["token"], "the others are not slowed down"


def test_a_stranger_that_polls_with_the_mac_of_a_machine_does_not_use_up_the_rate_of_the_machine() -> None:
    rates = Registering(lambda: 0.0)
    for _ in range(POLLS_OF_MACHINE[0]):
        rates.poll("52:54:00:00:00:01", "stranger")
    with pytest.raises(TooMany, match="too many polls of machine 52:54:00:00:00:01 at stranger"):
        rates.poll("52:54:00:00:00:01", "stranger")
    rates.poll("52:54:00:00:00:01", "machine")


def test_the_polls_of_one_address_are_bounded_together() -> None:
    rates, most = Registering(lambda: 0.0), POLLS_OF_ADDRESS[0]
    for number in range(most):
        rates.poll(f"mac {number}", "address")
    with pytest.raises(TooMany, match="too many polls from address"):
        rates.poll("one more", "address")

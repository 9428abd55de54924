"""Machines that join, over a real server: registration, adoption, their own tokens, strangers and races."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.installation import MachineUse
from nodepool_ocb.model.joining import Inventory, MachineRegistration
from nodepool_ocb.model.networks import MacOwner
from nodepool_ocb.model.records import Create, Delete, Node, NodeRole, Set, State
from nodepool_ocb.operations.joining.registering import RegistrationPoll
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.provisioning.joining import registrations
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.api.joining import GIB, KEY, JoiningMachine, record
from tests.api.served import ServedApi, problem


def test_a_waiting_machine_becomes_the_node_of_a_rule_that_is_set_later(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    machine = JoiningMachine(joinable, join_token, serial="Q 1")
    assert machine.register().json()["answer"]["node"] is None
    assert machine.poll()["reason"] == "there is no rule of adoption"
    words = ("name=q-{serial}-{n:02}.example.com", "when=memory>=64G serial:'Q 1'", "deployment=lab", "tags=fast")
    answer = adoption_rule(
        "web", *words, "roles=work", "commission=burn-in", "commit=true", "labels.size=big", "allow_install=true"
    )
    assert answer.status_code == 200, answer.text
    [forecast] = [
        each for each in joinable.ask("GET", "/v1/adoption-check").json()["answer"] if each["mac"] == machine.mac
    ]
    assert (forecast["node"], forecast["rule"]) == ("q-q-1-01.example.com", "web")

    fqdn = machine.poll()["node"]
    assert fqdn == "q-q-1-01.example.com"
    node = record(joinable, Node, paths.node(fqdn))
    assert (node.deployment, node.tags, node.labels, node.macs) == ("lab", ("fast",), {"size": "big"}, (machine.mac,))
    assert (node.host_keys, node.addresses) == ((KEY,), (machine.address,))
    assert record(joinable, MacOwner, paths.mac(machine.mac)).node == fqdn
    assert record(joinable, Inventory, paths.inventory(fqdn)).facts.memory == 64 * GIB
    work = record(joinable, NodeRole, paths.noderole("work", fqdn))
    assert work.parents == (f"burn-in@{fqdn}",), "the roles wait for the commissioning ones"
    assert work.state is State.BLOCKED
    names = [each["name"] for each in joinable.ask("GET", "/v1/nodes?selector=memory>=64G disks=1").json()["answer"]]
    assert fqdn in names


def test_the_own_token_of_a_machine_opens_its_node_alone(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("own", "name=own-{n}.example.com")
    machine, other = JoiningMachine(joinable, join_token), JoiningMachine(joinable, join_token)
    fqdn, foreign = (each.register().json()["answer"]["node"] for each in (machine, other))
    token = machine.poll()["token"]
    version = joinable.ask("GET", f"/v1/nodes/{fqdn}", token=token).headers["etag"]
    boot = {"boot_id": "0b0e7f1a-1111-2222-3333-444455556666"}
    alive = joinable.ask("POST", f"/v1/nodes/{fqdn}/alive", boot, token, If_Match=version)
    assert alive.status_code == 200, alive.text
    assert record(joinable, Node, paths.node(fqdn)).alive
    assert record(joinable, Inventory, paths.inventory(fqdn)).facts.boot_id == boot["boot_id"]
    assert joinable.ask("POST", f"/v1/nodes/{fqdn}/inventory", {"inventory": {"memory": 5}}, token).status_code == 200
    assert record(joinable, Inventory, paths.inventory(fqdn)).facts.memory == 5
    assert joinable.ask("POST", f"/v1/nodes/{fqdn}/going-down", {}, token).status_code == 200
    assert not record(joinable, Node, paths.node(fqdn)).alive
    absent = "none.example.com"
    for method, path, body in (
        ("GET", "/v1/nodes/{}", None),
        ("GET", "/v1/nodes/{}/facts", None),
        ("POST", "/v1/nodes/{}/going-down", {}),
        ("POST", "/v1/nodes/{}/inventory", {"inventory": {}}),
    ):
        refused = [joinable.ask(method, path.format(name), body, token) for name in (foreign, absent)]
        statuses = [problem(each)[:2] for each in refused]
        assert statuses[0] == statuses[1] == (404, "not-found"), (path, [each.text for each in refused])
        assert foreign not in refused[1].text
    assert problem(joinable.ask("GET", "/v1/nodes", token=token))[0] == 403
    assert problem(joinable.ask("POST", f"/v1/registrations/{machine.mac}/adopt", {"name": "x.y"}, token))[0] == 403


def test_a_machine_has_one_token_of_its_own_which_ends_with_the_next_and_with_its_node(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("one", "name=one-{n}.example.com")
    machine = JoiningMachine(joinable, join_token)
    fqdn = machine.register().json()["answer"]["node"]
    first, second = machine.poll()["token"], machine.poll()["token"]
    assert [joinable.ask("GET", f"/v1/nodes/{fqdn}", token=each).status_code for each in (first, second)] == [401, 200]
    joinable.call("node/delete", {"nodes": [fqdn]}, agreed=True)
    assert machine.poll()["reason"] == f"node {fqdn} was deleted"
    assert joinable.ask("GET", f"/v1/nodes/{fqdn}", token=second).status_code == 401


def test_a_stranger_with_a_mac_of_a_waiting_machine_is_refused_and_named(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    stranger = JoiningMachine(joinable, join_token, memory=1)
    stranger.macs = [stranger.mac, machine.mac]
    assert problem(stranger.register())[:2] == (409, "conflict")
    guess = joinable.ask("POST", f"/v1/registrations/{machine.mac}/poll", {"secret": "00" * 32}, join_token)
    assert problem(guess)[0] == 403
    kept = record(joinable, MachineRegistration, paths.registration(machine.mac))
    assert kept.facts.memory == 64 * GIB
    assert registrations.knows(kept, machine.secret)
    [row] = [each for each in joinable.ask("GET", "/v1/registrations").json()["answer"] if each["mac"] == machine.mac]
    assert f"two machines with one MAC: {stranger.address} claimed it" in row["reason"]
    machine.facts["memory"] = 7
    assert machine.register().status_code == 200, "its own secret renews it"
    assert record(joinable, MachineRegistration, paths.registration(machine.mac)).facts.memory == 7


def test_a_waiting_machine_that_boots_again_keeps_its_registration(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token, uuid="U-1", boot_id="first")
    machine.register()
    before = record(joinable, MachineRegistration, paths.registration(machine.mac))
    machine.boots_again("second")
    body = {"macs": machine.macs, "inventory": machine.facts, "host_keys": machine.host_keys}
    dry = joinable.ask("POST", "/v1/registrations?dry_run=true", body, join_token)
    assert (dry.status_code, dry.json()["answer"]["secret"]) == (200, None), "no secret that opens nothing"
    assert machine.register().status_code == 200
    kept = record(joinable, MachineRegistration, paths.registration(machine.mac))
    assert kept.since > before.since, "a former user of the machine knows no newer secret"
    assert (kept.facts.boot_id, kept.rival) == ("second", "")
    assert registrations.knows(kept, machine.secret)
    assert machine.poll()["node"] is None


def test_a_second_machine_of_the_same_macs_and_inventory_is_named_when_the_first_one_asks(
    joinable: ServedApi, join_token: str
) -> None:
    machine = JoiningMachine(joinable, join_token, uuid="U-2", boot_id="first")
    machine.register()
    clone = JoiningMachine(joinable, join_token, uuid="U-2", boot_id="of the clone")
    clone.macs, clone.mac = [machine.mac], machine.mac
    assert clone.register().status_code == 200, "it looks like a machine that booted again"
    asked = joinable.ask("POST", f"/v1/registrations/{machine.mac}/poll", {"secret": machine.secret}, join_token)
    assert (problem(asked)[0], "two machines with one MAC" in asked.text) == (403, True), asked.text
    [row] = [each for each in joinable.ask("GET", "/v1/registrations").json()["answer"] if each["mac"] == machine.mac]
    assert "two machines with one MAC" in row["reason"]
    assert problem(machine.register())[0] == 409, "with the secret of before"
    machine.boots_again("third")
    assert problem(machine.register())[0] == 409, "two were seen, so none is guessed"
    assert clone.poll()["node"] is None


def _taken_over(api: ServedApi, join_token: str, serial: str, boots: int = 1) -> tuple[JoiningMachine, JoiningMachine]:
    """A machine that waits, and another one with its MACs and inventory that has its registration now."""
    machine = JoiningMachine(api, join_token, serial=serial, boot_id="first")
    machine.register()
    clone = JoiningMachine(api, join_token, serial=serial)
    clone.macs, clone.mac = [machine.mac], machine.mac
    for boot in range(boots):
        clone.boots_again(f"of the clone {boot}")
        assert clone.register().status_code == 200
    return machine, clone


def test_a_second_machine_that_boots_several_times_is_named_too(joinable: ServedApi, join_token: str) -> None:
    machine, clone = _taken_over(joinable, join_token, "C-3", boots=2)
    asked = joinable.ask("POST", f"/v1/registrations/{machine.mac}/poll", {"secret": machine.secret}, join_token)
    assert (problem(asked)[0], "two machines with one MAC" in asked.text) == (403, True), asked.text
    clone.boots_again("another")
    assert problem(clone.register())[0] == 409


def test_no_rule_takes_a_machine_that_booted_again_before_another_one_could_show_itself(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    machine, clone = _taken_over(joinable, join_token, "C-4")
    made = adoption_rule("copies", "name=copy-{n}.example.com", "when=serial:C-4")
    assert made.status_code == 200, made.text
    forecasts = joinable.ask("GET", "/v1/adoption-check").json()["answer"]
    assert [each["node"] for each in forecasts if each["mac"] == machine.mac] == [None]
    waits = clone.poll()
    assert (waits["node"], "booted again" in waits["reason"]) == (None, True)
    joinable.ask("POST", f"/v1/registrations/{machine.mac}/poll", {"secret": machine.secret}, join_token)
    place = paths.registration(machine.mac)
    with Session(joinable.settings) as session:
        znode = session.get(place)
        assert znode is not None
        kept = codec.decode(MachineRegistration, znode)
        session.commit([Set(place, replace(kept, since=kept.since - registrations.SHOWN_SECONDS), znode.version)])
    named = clone.poll()
    assert (named["node"], "two machines with one MAC" in named["reason"]) == (None, True)
    with Session(joinable.settings) as session:
        znode = session.get(place)
        assert znode is not None
        session.commit([Set(place, replace(codec.decode(MachineRegistration, znode), rival=""), znode.version)])
    taken = clone.poll()
    assert taken["node"] == "copy-1.example.com", taken["reason"]


def test_a_stranger_with_the_mac_of_a_known_node_changes_nothing(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("known", "name=known-{n}.example.com")
    first = JoiningMachine(joinable, join_token)
    fqdn = first.register().json()["answer"]["node"]
    assert joinable.ask("DELETE", f"/v1/registrations/{first.mac}", {}).status_code == 200
    before = record(joinable, Node, paths.node(fqdn))
    stranger = JoiningMachine(joinable, join_token)
    stranger.macs, stranger.mac = [first.mac], first.mac
    assert stranger.register().json()["answer"]["node"] is None
    assert record(joinable, Node, paths.node(fqdn)) == before
    assert f"node {fqdn} has its MAC and runs on a known machine" in stranger.poll()["reason"]
    adopted = joinable.ask("POST", f"/v1/registrations/{first.mac}/adopt", {"name": fqdn})
    assert adopted.status_code == 200, adopted.text
    assert stranger.poll()["node"] == fqdn, "a person says that it is the same machine"


def test_a_planned_node_waits_for_its_machine_without_a_rule(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    hinted = joinable.ask(
        "POST", "/v1/node-hints", {"mac": machine.mac, "name": "planned.example.com", "deployment": "lab"}
    )
    assert hinted.status_code == 200, hinted.text
    assert machine.register().json()["answer"]["node"] == "planned.example.com"
    node = record(joinable, Node, paths.node("planned.example.com"))
    assert (node.host_keys, node.macs, node.addresses) == ((KEY,), (machine.mac,), (machine.address,))


def test_two_servers_at_one_moment_make_one_node(joinable: ServedApi, join_token: str, adoption_rule: Any) -> None:
    machines = [JoiningMachine(joinable, join_token, serial="race") for _ in range(3)]
    for each in machines:
        each.register()
    adoption_rule("race", "name=race-{n}.example.com", "when=serial:race")

    def one(machine: JoiningMachine) -> None:
        try:
            joinable.direct.perform(RegistrationPoll(mac=machine.mac, secret=machine.secret))
        except Stale:
            return  # another writer was faster each time

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, [*machines, *machines]))
    nodes = [each.poll()["node"] for each in machines]
    assert sorted(nodes) == [f"race-{number}.example.com" for number in (1, 2, 3)]
    assert [record(joinable, MacOwner, paths.mac(each.mac)).node for each in machines] == nodes


def test_the_flood_of_a_stranger_is_refused_and_the_machines_that_waited_stay(
    joinable: ServedApi, join_token: str
) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    flood = joinable.direct.token(name="flood", role="join")
    with Session(joinable.settings) as session:
        now = session.now()
        full = MachineRegistration(macs=(), digest=tokens.digest("x"), by="flood", seen=now, since=now)
        made = [f"52:54:01:00:00:{number:02x}" for number in range(256)]
        for start in range(0, 256, 64):
            session.commit(
                [Create(paths.registration(mac), replace(full, macs=(mac,))) for mac in made[start : start + 64]]
            )
        try:
            refused = [JoiningMachine(joinable, flood).register() for _ in range(3)]
            assert [problem(each)[:2] for each in refused] == [(429, "too-many")] * 3
            assert JoiningMachine(joinable, join_token).register().status_code == 200, (
                "another token has places of its own"
            )
            assert machine.poll()["node"] is None
        finally:
            for start in range(0, 256, 64):
                session.commit([Delete(paths.registration(mac), 0) for mac in made[start : start + 64]])


def test_a_lost_secret_frees_its_mac_when_the_machine_is_silent(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    with Session(joinable.settings) as session:
        znode = session.get(paths.registration(machine.mac))
        assert znode is not None
        found = codec.decode(MachineRegistration, znode)
        silent = replace(found, seen=found.seen - registrations.SILENT_SECONDS)
        session.commit([Set(paths.registration(machine.mac), silent, znode.version)])
    machine.secret = ""
    assert machine.register().status_code == 200
    assert registrations.knows(record(joinable, MachineRegistration, paths.registration(machine.mac)), machine.secret)


def test_a_machine_that_a_person_refused_stays_refused_until_it_is_forgotten(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    machine = JoiningMachine(joinable, join_token)
    machine.register()
    place, first = f"/v1/registrations/{machine.mac}", machine.secret

    def refuse(**fields: str) -> Any:
        return joinable.ask("POST", f"{place}/refuse", fields)

    assert problem(refuse(reason=" "))[0] == 422
    assert refuse(reason="a laptop of a visitor").status_code == 200
    adoption_rule("all", "name=all-{n}.example.com")
    said = machine.poll()
    assert (said["node"], said["poll_seconds"]) == (None, registrations.REFUSED_SECONDS)
    assert said["reason"].endswith(": a laptop of a visitor")
    before = record(joinable, MachineRegistration, paths.registration(machine.mac))
    machine.secret = ""  # it was started again, and has another card
    other = JoiningMachine(joinable, join_token).mac
    machine.macs = [other, machine.mac]
    answer = machine.register()
    assert (problem(answer)[0], f"registration delete {place[-17:]}" in answer.text) == (409, True), answer.text
    machine.secret = first
    assert problem(machine.register())[0] == 409, "its own secret renews nothing"
    adopted = joinable.ask("POST", f"{place}/adopt", {"name": "refused.example.com"})
    assert (problem(adopted)[0], "it was refused by" in adopted.text) == (409, True)
    [row] = [each for each in joinable.ask("GET", "/v1/registrations").json()["answer"] if each["mac"] == machine.mac]
    assert (row["refused"], "a laptop of a visitor" in row["reason"]) == (True, True)
    forecast = joinable.ask("GET", "/v1/adoption-check").json()["answer"]
    assert machine.mac not in [each["mac"] for each in forecast]
    assert record(joinable, MachineRegistration, paths.registration(machine.mac)) == before, "it changes nothing"
    assert joinable.ask("DELETE", place, {}).status_code == 200
    node = machine.register().json()["answer"]["node"]
    assert node.startswith("all-")
    refused = joinable.ask("POST", f"/v1/registrations/{other}/refuse", {"reason": "late"})
    assert (problem(refused)[0], f"nodepool-ocb node delete {node}" in refused.text) == (409, True)
    machine.mac = other
    machine.poll()  # it has a token now, and asks no more
    joinable.direct.perform(NodeDelete(nodes=(node,)))
    assert joinable.ask("POST", f"/v1/registrations/{other}/refuse", {"reason": "late"}).status_code == 200
    after = record(joinable, MachineRegistration, paths.registration(other))
    assert (after.node, after.refused) == (None, "late")


def test_a_join_token_with_limits_makes_nodes_in_its_deployments_alone(joinable: ServedApi, adoption_rule: Any) -> None:
    adoption_rule("outside", "name=outside-{n}.example.com", "deployment=system")
    limited = joinable.direct.token(name="limited", role="join", deployments=("lab",))
    machine = JoiningMachine(joinable, limited)
    assert machine.register().json()["answer"]["node"] is None
    assert "outside: the join token is limited to lab" in machine.poll()["reason"]
    assert problem(joinable.ask("GET", "/v1/registrations", token=limited))[0] == 403


def test_an_inventory_that_is_too_large_is_refused(joinable: ServedApi, join_token: str) -> None:
    machine = JoiningMachine(joinable, join_token, more="x" * 70_000)
    assert problem(machine.register())[:2] == (413, "too-large")
    assert record(joinable, MachineRegistration, paths.registration(machine.mac)) is None


def test_a_machine_in_discovery_keeps_its_node_when_the_node_is_renamed(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("renamed", "name=before-{n}.example.com")
    machine = JoiningMachine(joinable, join_token)
    fqdn = machine.register().json()["answer"]["node"]
    former = machine.poll()["token"]
    joinable.call("node/rename", {"node": fqdn, "name": "after.example.com"}, agreed=True)
    assert record(joinable, MachineRegistration, paths.registration(machine.mac)).node == "after.example.com"
    answer = machine.poll()
    assert answer["node"] == "after.example.com"
    assert joinable.ask("GET", "/v1/nodes/after.example.com", token=answer["token"]).status_code == 200
    assert joinable.ask("GET", "/v1/nodes/after.example.com", token=former).status_code == 401


def test_the_token_of_the_former_user_of_a_pools_machine_opens_nothing(
    joinable: ServedApi, join_token: str, adoption_rule: Any
) -> None:
    adoption_rule("lent", "name=lent-{n}.example.com")
    machine = JoiningMachine(joinable, join_token)
    fqdn = machine.register().json()["answer"]["node"]
    own = machine.poll()["token"]
    made = record(joinable, tokens.Token, paths.token((tokens.split(own) or ("", ""))[0])).created
    used = MachineUse(
        cluster="c", provider="rack", pool="main", pool_node="1", key="k", label="small", image="debian",
        since=made - 1.0, generation=1,
    )  # fmt: skip

    def says(verb: str, **body: Any) -> tuple[int, str]:
        answer = joinable.ask("POST", f"/v1/nodes/{fqdn}/{verb}", body, own, If_Match="*")
        return answer.status_code, answer.text

    with Session(joinable.settings) as session:
        session.commit([Create(paths.machine_use(fqdn), used)])
        assert says("going-down")[0] == 200, "its user may say so"
        status, text = says("inventory", inventory={"memory": 900 * GIB})
        assert (status, "is lent by a pool" in text) == (403, True), text
        session.commit([Set(paths.machine_use(fqdn), replace(used, returned=made + 1.0), 0)])
        before = record(joinable, Node, paths.node(fqdn)), record(joinable, Inventory, paths.inventory(fqdn))
        for verb, body in (("going-down", {}), ("alive", {}), ("inventory", {"inventory": {"memory": 5}})):
            status, text = says(verb, **body)
            assert (status, f"node {fqdn} does not exist" in text) == (404, True), text
        assert joinable.ask("GET", f"/v1/nodes/{fqdn}", token=own).status_code == 404
        session.commit([Set(paths.machine_use(fqdn), replace(used, since=made + 2.0, pool_node="2"), 1)])
        assert says("going-down")[0] == 404, "the next use makes it no younger"
    assert before == (record(joinable, Node, paths.node(fqdn)), record(joinable, Inventory, paths.inventory(fqdn)))

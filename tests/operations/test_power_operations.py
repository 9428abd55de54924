"""Power against a real ZooKeeper, without a command line and without an annealer."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodepool_ocb.config import SecretsSettings, Settings, ZooKeeperSettings
from nodepool_ocb.engine import powering
from nodepool_ocb.errors import Conflict, Invalid, NotFound
from nodepool_ocb.model import paths, secrecy
from nodepool_ocb.model.joining import Inventory, MachineFacts
from nodepool_ocb.model.power import MachinePower, PowerAction
from nodepool_ocb.model.records import Create, Set
from nodepool_ocb.operations.keys.listing import SecretList
from nodepool_ocb.operations.keys.rotating import SecretRotate
from nodepool_ocb.operations.nodes.creating import NewNode, NodeCreate
from nodepool_ocb.operations.nodes.deleting import NodeDelete
from nodepool_ocb.operations.nodes.renaming import NodeRename
from nodepool_ocb.operations.operation import Call, Right
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.operations.power.discovering import PowerDiscover
from nodepool_ocb.operations.power.reading import PowerList, PowerShow
from nodepool_ocb.operations.power.requesting import PowerCheck, PowerCycle, PowerOff, PowerOn
from nodepool_ocb.operations.power.rotating import PowerRotate
from nodepool_ocb.operations.power.setting import PowerSet, PowerUnset
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.operations.performing import InterruptedPerformer, ListeningCaller

N1, N2 = "n1.example.com", "n2.example.com"
PASSWORD = "a-password-of-a-bmc"


@pytest.fixture
def performer(zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path) -> Performer:
    """With a key file, and two nodes."""
    del zk_session
    key = tmp_path / "key"
    keyring.generate(key)
    settings = Settings(zookeeper=zk_settings, secrets=SecretsSettings(key_file=str(key)))
    made = Performer(Call(login="ann", host="desk"), ListeningCaller(), lambda: settings)
    for name in (N1, N2):
        made.perform(NodeCreate(name=name, node=NewNode(virtual=True)))
    return made


def given(performer: Performer, *words: str, nodes: tuple[str, ...] = (N1,), within: tuple[str, ...] = ()) -> None:
    performer.perform(PowerSet(nodes=nodes, assignments=words, within=within))


def test_a_password_is_encrypted_and_shown_nowhere(performer: Performer, zk_session: Session) -> None:
    given(performer, "driver=ipmi", "address=bmc-{host}.example.com", "username=root", f"password={PASSWORD}")
    znode = zk_session.get(paths.power(N1))
    assert znode is not None
    assert PASSWORD not in znode.data.decode()
    document = performer.perform(PowerShow(node=N1)).answer
    assert (document.row.address, document.password) == ("bmc-n1.example.com", "(secret)")
    assert PASSWORD not in msgspec.json.encode([document, performer.perform(PowerList()).answer]).decode()
    (row,) = performer.perform(SecretList()).answer
    assert (row.name, row.attribute, row.state) == (f"power of {N1}", "power/password", "newest")


def test_a_new_key_encrypts_passwords_anew(performer: Performer, tmp_path: Path, zk_session: Session) -> None:
    given(performer, "driver=ipmi", "address=bmc", f"password={PASSWORD}")
    before = zk_session.get(paths.power(N1))
    key, newer = tmp_path / "key", tmp_path / "newer"
    keyring.generate(newer)
    key.write_text(newer.read_text() + key.read_text())
    performer.perform(SecretRotate())
    after = zk_session.get(paths.power(N1))
    assert before is not None
    assert after is not None
    assert before.data != after.data
    (row,) = performer.perform(SecretList()).answer
    assert row.state == "newest"


def test_a_password_does_not_follow_to_another_address(performer: Performer) -> None:
    """Else the next request would show it to any BMC that a person names."""
    given(performer, "driver=ipmi", "address=bmc", f"password={PASSWORD}")
    for words in (("address=elsewhere",), ("driver=redfish", "address=https://elsewhere"), ("interface=lan",)):
        with pytest.raises(Invalid, match="the password was given for bmc; give it again"):
            given(performer, *words)
    given(performer, "username=root")
    given(performer, "address=elsewhere", f"password={PASSWORD}")
    assert PowerSet.right is Right.ADMIN


def test_wrong_settings_write_nothing_to_any_node(performer: Performer) -> None:
    with pytest.raises(Invalid) as raised:
        given(performer, "driver=redfish", "address={host}", "modus=uefi", nodes=(N1, N2))
    assert [problem.split(":")[0] for problem in raised.value.problems] == [N1, N1]
    assert "did you mean mode?" in str(raised.value)
    assert performer.perform(PowerList()).answer == []
    with pytest.raises(Invalid, match="has no power settings yet; give a driver"):
        given(performer, "address=bmc")


def test_a_node_has_one_request_at_a_time(performer: Performer) -> None:
    with pytest.raises(NotFound, match=f"nodepool-ocb power set {N1}"):
        performer.perform(PowerOn(nodes=(N1,)))
    given(performer, "driver=manual")
    answer = performer.perform(PowerCycle(nodes=(N1,), network=True)).answer
    (row,) = performer.perform(PowerList(nodes=(N1,))).answer
    assert (row.asked, row.outcome) == (answer.request, "waiting")
    with pytest.raises(Conflict, match="asked for power cycle before"):
        performer.perform(PowerOff(nodes=(N1,)))
    with pytest.raises(Conflict, match="power cycle of n1"):
        performer.perform(PowerUnset(nodes=(N1,)))


def reports(session: Session, fqdn: str, bmc: str) -> None:
    """The facts that a machine sent."""
    facts = MachineFacts(bmc_address=bmc)
    session.commit([Create(paths.inventory(fqdn), Inventory(facts=facts))])


def test_a_new_password_is_stored_before_it_is_asked_for_and_used_by_the_next_try(
    performer: Performer, tmp_path: Path, zk_session: Session
) -> None:
    given(performer, "driver=ipmi", "address=bmc", f"password={PASSWORD}")
    asked = performer.perform(PowerRotate(nodes=(N1,))).answer
    record = _power(zk_session)
    assert record.request is not None
    assert (record.request.id, record.request.action) == (asked.request, PowerAction.ROTATE)
    assert performer.perform(PowerShow(node=N1)).answer.unconfirmed
    text = secrecy.text_of(record.fresh)
    assert text is not None
    plain = Secrets(SecretsSettings(key_file=str(tmp_path / "key"))).keys().decrypt("power/password", text)
    assert len(str(plain)) == 16
    assert plain != PASSWORD
    failed = powering.failed(record, "the BMC does not answer", None, 1.0)
    znode = zk_session.get(paths.power(N1))
    assert znode is not None
    zk_session.commit([Set(paths.power(N1), failed, znode.version)])
    performer.perform(PowerRotate(nodes=(N1,)))
    assert _power(zk_session).fresh == record.fresh, "the BMC may have it"
    assert [row.attribute for row in performer.perform(SecretList()).answer] == ["power/password"] * 2
    key, newer = tmp_path / "key", tmp_path / "newer"
    keyring.generate(newer)
    key.write_text(newer.read_text() + key.read_text())
    performer.perform(SecretRotate())
    after = _power(zk_session)
    assert after.fresh != record.fresh
    assert after.password != record.password
    done = powering.confirmed(after)
    assert (done.password, done.fresh) == (after.fresh, None)
    given(performer, f"password={PASSWORD}-of-a-person")
    assert _power(zk_session).fresh is None, "a person knows better"


def _power(session: Session) -> MachinePower:
    znode = session.get(paths.power(N1))
    assert znode is not None
    return codec.decode(MachinePower, znode)


def test_only_a_password_that_is_kept_here_can_be_changed(performer: Performer) -> None:
    given(performer, "driver=ipmi", "address=bmc", nodes=(N1,))
    given(performer, "driver=manual", nodes=(N2,))
    with pytest.raises(Invalid) as raised:
        performer.perform(PowerRotate(nodes=(N1, N2)))
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [N1, N2]
    assert "it has no password yet" in str(raised.value)
    assert "driver manual has no password" in str(raised.value)
    given(performer, 'password={"$secret": "vault:bmc#password"}')
    with pytest.raises(Invalid, match="its password is the reference vault:bmc#password"):
        performer.perform(PowerRotate(nodes=(N1,)))
    assert PowerRotate.right is Right.ADMIN


def test_bmcs_that_machines_reported_are_found_and_set(performer: Performer, zk_session: Session) -> None:
    with pytest.raises(Invalid, match=f"{N1}: its machine reported no BMC"):
        given(performer, "driver=ipmi", "address={bmc}")
    reports(zk_session, N1, "10.9.0.1")
    reports(zk_session, N2, "10.8.0.2")
    rows = performer.perform(PowerDiscover(within=("10.9.0.0/24",))).answer
    assert [(row.node, row.bmc, row.driver) for row in rows] == [(N1, "10.9.0.1", None), (N2, "10.8.0.2", None)]
    assert [row.trouble for row in rows] == [None, "10.8.0.2 is in none of the networks 10.9.0.0/24"]
    words = ("driver=redfish", "address=https://{bmc}", "username=root", f"password={PASSWORD}")
    with pytest.raises(Invalid, match="name the networks of your BMCs: --within"):
        given(performer, *words)
    with pytest.raises(Invalid, match=r"10\.8\.0\.2 is in none of the networks 10\.9\.0\.0/24; write its address"):
        given(
            performer, *words, nodes=(N2,), within=("10.9.0.0/24",)
        )  # it reports another one after a look at the list
    given(performer, *words, within=("10.9.0.0/24",))
    assert performer.perform(PowerShow(node=N1)).answer.row.address == "https://10.9.0.1"
    assert [row.node for row in performer.perform(PowerDiscover()).answer] == [N2, N1], (
        "those without settings come first"
    )
    with pytest.raises(Invalid, match="is no network"):
        performer.perform(PowerDiscover(within=("10.9.0.1/24",)))


def test_a_bmc_of_another_machine_is_never_taken_from_a_report(performer: Performer, zk_session: Session) -> None:
    """Else a machine could have the site's password sent to any address, or be switched by the BMC of another."""
    given(performer, "driver=ipmi", "address=10.9.0.1:623", nodes=(N2,))
    reports(zk_session, N1, "10.9.0.1")
    with pytest.raises(Invalid, match=f"{N2} has the BMC 10.9.0.1, too"):
        given(performer, "driver=ipmi", "address={bmc}")
    performer.perform(PowerUnset(nodes=(N2,)))
    reports(zk_session, N2, "10.9.0.1")
    with pytest.raises(Invalid, match=f"{N2} has the BMC 10.9.0.1, too"):
        given(performer, "driver=ipmi", "address={bmc}")


def test_power_goes_and_is_renamed_with_its_node(performer: Performer, zk_session: Session) -> None:
    given(performer, "driver=manual", nodes=(N1, N2))
    performer.perform(NodeRename(node=N1, name="n3.example.com"))
    performer.perform(NodeDelete(nodes=(N2,)))
    assert [row.node for row in performer.perform(PowerList()).answer] == ["n3.example.com"]
    assert zk_session.get(paths.power(N2)) is None
    performer.perform(PowerCheck(nodes=("n3.example.com",)))


IPMI = ("driver=ipmi", f"password={PASSWORD}")


@pytest.mark.parametrize("address", ["bmc1", "BMC1", "bmc1:623"])
def test_two_nodes_never_get_the_power_of_one_machine(performer: Performer, address: str) -> None:
    given(performer, *IPMI, "address=bmc1")
    with pytest.raises(Invalid, match=f"{N2}: ipmi {address} is the power of {N1}, too"):
        given(performer, *IPMI, f"address={address}", "mode=uefi", "chassis=c1", nodes=(N2,))
    assert [row.node for row in performer.perform(PowerList()).answer] == [N1]
    given(performer, "username=root")  # it keeps its own


def test_one_command_never_gives_two_nodes_one_machine_and_a_blade_has_its_own_option(performer: Performer) -> None:
    with pytest.raises(Invalid) as raised:
        given(performer, *IPMI, "address=bmc1", nodes=(N1, N2))
    assert [problem.split(": ")[0] for problem in raised.value.problems] == [N1, N2]
    assert "bmc-{host}.example.com" in str(raised.value)
    assert performer.perform(PowerList()).answer == []
    blade = ("driver=redfish", "address=https://enclosure", f"password={PASSWORD}")
    given(performer, *blade, "system=1")
    given(performer, *blade, "system=2", nodes=(N2,))
    with pytest.raises(Invalid, match=f"{N2}: redfish https://enclosure is the power of {N1}, too"):
        given(performer, "system=1", f"password={PASSWORD}", nodes=(N2,))
    for name in (N1, N2):
        given(performer, "driver=manual", "password=", nodes=(name,))
    given(performer, *IPMI, "address=bmc1")
    performer.perform(NodeDelete(nodes=(N1,)))
    given(performer, *IPMI, "address=bmc1", nodes=(N2,))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("driver=ipmi address=127.0.0.1", "driver=ipmi address=localhost"),
        ("driver=ipmi address=localhost", "driver=redfish address=https://127.0.0.1/"),
    ],
)
def test_one_bmc_under_two_spellings_serves_one_node(performer: Performer, first: str, second: str) -> None:
    given(performer, *first.split(), f"password={PASSWORD}")
    with pytest.raises(
        Invalid, match=rf"{N2}: .* is the power of {N1}, too \(.*127\.0\.0\.1.*; give each its own address"
    ):
        given(performer, *second.split(), f"password={PASSWORD}", nodes=(N2,))
    assert [row.node for row in performer.perform(PowerList()).answer] == [N1]


def test_the_name_of_an_older_setting_is_resolved_before_another_node_gets_its_address(
    performer: Performer, zk_session: Session
) -> None:
    zk_session.commit([Create(paths.power(N1), MachinePower(driver="ipmi", address="localhost"))])
    with pytest.raises(Invalid, match=rf"{N2}: ipmi 127\.0\.0\.1 is the power of {N1}"):
        given(performer, *IPMI, "address=127.0.0.1", nodes=(N2,))


def test_nodes_that_share_a_machine_since_before_that_was_refused_keep_their_other_settings(
    performer: Performer, zk_session: Session
) -> None:
    shared = MachinePower(driver="ipmi", address="bmc1", off_since=5.0)
    zk_session.commit([Create(paths.power(name), shared) for name in (N1, N2)])
    given(performer, "username=root")
    found = _power(zk_session)
    assert (found.username, found.address, found.off_since) == ("root", "bmc1", 5.0), "it must be off as before"


def test_of_two_admins_that_set_one_machine_for_two_nodes_at_the_same_moment_one_is_refused(
    performer: Performer, zk_settings: ZooKeeperSettings
) -> None:
    words = ("driver=ipmi", "address=bmc1")
    slower = InterruptedPerformer(zk_settings, lambda: given(performer, *words, nodes=(N2,)))
    with pytest.raises(Invalid, match=f"{N1}: ipmi bmc1 is the power of {N2}, too"):
        slower.perform(PowerSet(nodes=(N1,), assignments=words))
    assert slower.reads == 2, "its first decision was refused"
    assert [row.node for row in performer.perform(PowerList()).answer] == [N2]


def test_power_settings_are_kept_while_the_machine_must_be_off_and_a_machine_switched_by_hand_need_not_be(
    performer: Performer, zk_session: Session
) -> None:
    zk_session.commit([Create(paths.power(N1), MachinePower(driver="ipmi", address="bmc1", off_since=5.0))])
    with pytest.raises(Conflict, match=f"nodepool-ocb power on {N1}; .* nodepool-ocb power set {N1} driver=manual"):
        performer.perform(PowerUnset(nodes=(N1,)))
    given(performer, "driver=manual")
    assert _power(zk_session).off_since is None, "annealers could not ask for it again"
    performer.perform(PowerUnset(nodes=(N1,)))

"""An installer at a real server: the token of one boot, its order, its reports; and strangers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
from msgspec.structs import replace

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.installation import BootToken, Installation, InstallPurpose, InstallStep
from nodepool_ocb.model.records import Create, Fence, Node, NodeRole, Role, Set, State
from nodepool_ocb.model.tokens import TokenRole
from nodepool_ocb.provisioning.installation import advanced
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi, problem
from tests.fixtures.chroots import fresh

MAC: Final = "52:54:00:12:34:56"
SUM: Final = "sha256:" + "a" * 64
KEY: Final = "ssh-ed25519 AAAAC3Nz"
BODY: Final = {"mac": MAC, "boot_id": "boot-of-installer", "host_key": KEY}


class Installers:
    """A cluster with one server; each test has a node of its own, whose machine has been told to boot."""

    def __init__(self, api: ServedApi, session: Session) -> None:
        self.api, self.session, self.count = api, session, 0
        session.commit([Create(paths.role("os"), Role(barclamp="p", jig="install", flags=("destructive",)))])

    def machine(self, purpose: InstallPurpose = InstallPurpose.INSTALL) -> tuple[str, str]:
        """A node, and the text of the token of its boot."""
        self.count += 1
        fqdn = f"n{self.count}.example.com"
        text = tokens.text(f"{self.count:012x}", bytes([self.count]) * 32)
        id, secret = tokens.split(text) or ("", "")
        now = time.time()
        made = Installation(
            purpose=purpose,
            noderole=f"os@{fqdn}", generation=1, run="r1", epoch=7, since=now, started=now, deadline=now, image="debian",
            checksum=SUM, order={"checksum": SUM}, boot_id="boot-of-before", nonce="0" * 32, token=id,
            token_digest=tokens.digest(secret),
        )  # fmt: skip
        record = NodeRole.of(state=State.TRANSITION, since=now, generation=1, run="r1", epoch=7, once="started")
        self.session.commit(
            [
                Create(paths.node(fqdn), Node(alive=True, allow_install=True, bootenv="install", macs=(MAC,))),
                Create(paths.fence(fqdn), Fence()),
                Create(paths.noderoles(fqdn)),
                Create(paths.noderole("os", fqdn), record),
                Create(paths.runs("os", fqdn)),
                Create(paths.installation(fqdn), advanced(made, InstallStep.REBOOTING, now)),
                Create(paths.boot_token(fqdn), BootToken(text=text)),
            ]
        )
        return fqdn, text

    def identify(self, fqdn: str, token: str, **changed: str) -> Any:
        return self.api.ask("POST", f"/v1/nodes/{fqdn}/installation/identity", {**BODY, **changed}, token)

    def report(self, fqdn: str, token: str, wait: float | None = None, **body: Any) -> Any:
        query = "" if wait is None else f"?wait={wait}"
        return self.api.ask("POST", f"/v1/nodes/{fqdn}/installation/report{query}", body, token)

    def steps(self, fqdn: str, step: InstallStep, **fields: Any) -> None:
        """Write a step, as an annealer does."""
        znode = self.session.get(paths.installation(fqdn))
        assert znode is not None
        after = replace(advanced(self.record(fqdn), step, time.time()), **fields)
        self.session.commit([Set(paths.installation(fqdn), after, znode.version)])

    def shown(self, fqdn: str, token: str) -> Any:
        answer = self.api.ask("GET", f"/v1/nodes/{fqdn}/installation", token=token)
        assert answer.status_code == 200, answer.text
        return answer.json()["answer"]

    def record(self, fqdn: str) -> Installation:
        return codec.decode(Installation, self.session.get(paths.installation(fqdn)))

    def node(self, fqdn: str) -> Node:
        return codec.decode(Node, self.session.get(paths.node(fqdn)))


@pytest.fixture(scope="module")
def place(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installers]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('installations')}")
    api = ServedApi(settings, tmp_path_factory.mktemp("installations"))
    with Session(settings) as session:
        try:
            yield Installers(api, session)
        finally:
            api.close()


def test_an_installer_exchanges_the_token_of_its_boot_and_reports_until_it_may_boot_the_disk(place: Installers) -> None:
    fqdn, boot = place.machine()
    answer = place.identify(fqdn, boot)
    assert answer.status_code == 200, answer.text
    own, order = answer.json()["answer"]["token"], answer.json()["answer"]["order"]
    assert order == {"checksum": SUM, "epoch": 7, "epoch_key": "os@1"}
    assert place.session.get(paths.boot_token(fqdn)) is None
    record = place.record(fqdn)
    assert (record.step, record.host_key, record.mac) == (InstallStep.IDENTIFIED, KEY, MAC)
    held = codec.decode(tokens.Token, place.session.get(paths.token((tokens.split(own) or ("", ""))[0])))
    assert (held.role, held.selector) == (TokenRole.NODE, f"name:{fqdn}")
    assert place.report(fqdn, own, step="fetched", percent=40).status_code == 200
    assert place.record(fqdn).percent == 40
    assert place.report(fqdn, own, step="written").status_code == 200
    assert place.report(fqdn, own, step="verified", checksum=SUM).status_code == 202, "it may not leave yet"
    assert (place.record(fqdn).step, place.node(fqdn).bootenv) == (InstallStep.VERIFIED, "local")
    shown = place.shown(fqdn, own)
    assert (shown["step"], shown["reboot"]) == ("verified", False), "local is not published yet"
    place.steps(fqdn, InstallStep.PUBLISHED_LOCAL)
    deadline = time.monotonic() + 20.0
    while not place.shown(fqdn, own)["reboot"]:
        assert time.monotonic() < deadline


def test_the_last_report_is_answered_when_the_machine_may_leave(place: Installers) -> None:
    fqdn, boot = place.machine()
    own = place.identify(fqdn, boot).json()["answer"]["token"]
    assert place.report(fqdn, own, step="written", wait=60).status_code == 200, "no last word: it waits for nothing"
    assert place.report(fqdn, own, step="verified", checksum=SUM, wait=0.1).status_code == 202, (
        "local is not published yet"
    )
    with ThreadPoolExecutor(1) as beside:
        repeated = beside.submit(place.report, fqdn, own, step="verified", checksum=SUM, wait=60)
        place.steps(fqdn, InstallStep.PUBLISHED_LOCAL)
        answer = repeated.result(30.0)
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["outcome"], said["document"]["reboot"], said["document"]["epoch"]) == ("permitted", True, 7)


def test_a_wait_for_leave_ends_with_the_installation(place: Installers) -> None:
    fqdn, boot = place.machine()
    own = place.identify(fqdn, boot).json()["answer"]["token"]
    assert place.report(fqdn, own, step="written").status_code == 200
    with ThreadPoolExecutor(1) as beside:
        last = beside.submit(place.report, fqdn, own, step="verified", checksum=SUM, wait=60)
        while place.record(fqdn).step is not InstallStep.VERIFIED:
            assert not last.done(), last.result().text
        place.steps(fqdn, InstallStep.VERIFIED, reason="step alive: cancelled")
        answer = last.result(30.0)
    said = answer.json()
    assert (said["outcome"], said["document"]["reboot"]) == ("failed", False)
    assert said["error"]["detail"] == "step alive: cancelled"


def test_a_wait_for_leave_ends_when_the_token_opens_the_node_no_more(place: Installers) -> None:
    fqdn, boot = place.machine()
    own = place.identify(fqdn, boot).json()["answer"]["token"]
    assert place.report(fqdn, own, step="written").status_code == 200
    with ThreadPoolExecutor(1) as beside:
        last = beside.submit(place.report, fqdn, own, step="verified", checksum=SUM, wait=60)
        while place.record(fqdn).step is not InstallStep.VERIFIED:
            assert not last.done(), last.result().text
        znode = place.session.get(paths.node(fqdn))
        assert znode is not None
        gone = replace(codec.decode(Node, znode), decommissioned=time.time())
        place.session.commit([Set(paths.node(fqdn), gone, znode.version)])
        answer = last.result(30.0)
    assert (answer.status_code, "outcome" in answer.json()) == (202, False)
    assert problem(place.api.ask("GET", f"/v1/nodes/{fqdn}/installation", token=own))[0] == 404


def test_an_answer_that_was_lost_is_given_again_to_the_same_boot_with_another_token(place: Installers) -> None:
    fqdn, boot = place.machine()
    first, second = (place.identify(fqdn, boot).json()["answer"] for _ in range(2))
    assert first["order"] == second["order"]
    assert first["token"] != second["token"]
    assert problem(place.report(fqdn, first["token"], step="written"))[0] == 401
    assert place.report(fqdn, second["token"], step="written").status_code == 200


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"boot_id": "another"}, "boot another"),
        ({"host_key": "ssh-ed25519 AAAAX"}, ""),
        ({"mac": "52:54:00:00:00:01"}, ""),
    ],
)
def test_a_second_use_of_the_token_fails_the_installation_by_name(
    place: Installers, changed: dict[str, str], words: str
) -> None:
    fqdn, boot = place.machine()
    own = place.identify(fqdn, boot).json()["answer"]["token"]
    assert problem(place.identify(fqdn, boot, **changed))[0] == 409
    reason = place.record(fqdn).reason or ""
    assert "the token of the boot was used a second time" in reason
    assert words in reason
    assert problem(place.report(fqdn, own, step="written"))[0] == 409, "it is over"


def test_a_second_use_names_the_servers_that_have_older_boot_files_of_the_machine(place: Installers) -> None:
    fqdn, boot = place.machine()
    began = place.record(fqdn).since
    published = {"a1": began - 60.0, "a2": began + 60.0}
    for server, at in published.items():
        name = f"provisioner-dhcp-database@{server}.example.com"
        place.session.commit([Create(paths.publisher(name), Publisher())])
        place.session.commit([Create(paths.publication(name, fqdn), Publication(digest="older", at=at))])
    place.identify(fqdn, boot)
    assert problem(place.identify(fqdn, boot, boot_id="another"))[0] == 409
    reason = place.record(fqdn).reason or ""
    assert reason.endswith(
        "; a1.example.com has boot files of it from before step identified, and may have booted it"
    ), reason
    fqdn, boot = place.machine()
    assert "answer" in (first := place.identify(fqdn, boot).json()), first
    assert problem(place.identify(fqdn, boot, boot_id="another"))[0] == 409
    assert (place.record(fqdn).reason or "").endswith("or a stranger has the token")


def test_leave_that_was_taken_back_before_the_order_fails_the_installation(place: Installers) -> None:
    fqdn, boot = place.machine()
    znode = place.session.get(paths.node(fqdn))
    assert znode is not None
    place.session.commit([Set(paths.node(fqdn), replace(place.node(fqdn), allow_install=False), znode.version)])
    assert problem(place.identify(fqdn, boot))[0] == 409
    record = place.record(fqdn)
    assert (record.step, record.token_used) == (InstallStep.REBOOTING, None)
    assert record.reason == "step identified: allow_install of the node was taken back before a disk was erased"


def test_a_forged_mac_fails_the_installation_and_gets_no_order(place: Installers) -> None:
    fqdn, boot = place.machine()
    answer = place.identify(fqdn, boot, mac="52:54:00:00:00:01")
    assert problem(answer)[0] == 409
    assert "order" not in answer.text
    assert f"booted with MAC 52:54:00:00:00:01, and the node has {MAC}" in (place.record(fqdn).reason or "")


def test_a_stranger_gets_nothing_and_changes_nothing(place: Installers) -> None:
    """Without a token, with a made-up one, with that of another machine, or with one that was used up."""
    (fqdn, boot), (other, stolen) = place.machine(), place.machine()
    before = place.record(fqdn)
    id = (tokens.split(boot) or ("", ""))[0]
    for token in (tokens.text(id, bytes(32)), tokens.text("f" * 12, bytes(32))):
        assert problem(place.identify(fqdn, token))[0] == 401
    assert problem(place.identify(fqdn, stolen))[0] == 404
    own = place.identify(other, stolen).json()["answer"]["token"]
    for answer in (
        place.report(fqdn, own, step="failed"),
        place.api.ask("GET", f"/v1/nodes/{fqdn}/installation", token=own),
        place.api.ask("GET", f"/v1/nodes/{fqdn}", token=own),
    ):
        assert problem(answer)[0] == 404
    assert problem(place.report(other, stolen, step="failed"))[0] == 403, "the token of a boot reports nothing"
    assert problem(place.identify(fqdn, place.api.token))[0] == 403, "nor does a person speak for an installer"
    assert place.record(fqdn) == before


def test_a_system_has_its_own_token_again_after_a_rescue_and_that_of_the_environment_ends(place: Installers) -> None:
    fqdn, boot = place.machine(InstallPurpose.RESCUE)
    own = tokens.text(f"{900 + place.count:012x}", bytes([9]) * 32)
    id, secret = tokens.split(own) or ("", "")
    token = tokens.Token(
        name=tokens.of_machine(fqdn), role=TokenRole.NODE, digest=tokens.digest(secret), selector=f"name:{fqdn}", life=0,
        created=1.0,
    )  # fmt: skip
    place.session.ensure(paths.TOKENS)
    place.session.commit([Create(paths.token(id), token)])
    first = place.identify(fqdn, boot).json()["answer"]["token"]
    answer = place.identify(fqdn, boot)  # the first answer was lost
    assert answer.status_code == 200, answer.text
    environment = answer.json()["answer"]["token"]
    assert place.api.ask("GET", f"/v1/nodes/{fqdn}/installation", token=first).status_code == 401
    assert place.shown(fqdn, environment)["step"] == "identified"
    held = codec.decode(tokens.Token, place.session.get(paths.token((tokens.split(environment) or ("", ""))[0])))
    assert held.expires is not None
    assert held.expires > place.record(fqdn).deadline, "it asks whether it may leave until then"
    for verb, body in (("going-down", {}), ("inventory", {"inventory": {"memory": 5}}), ("alive", {"boot_id": "b"})):
        said = place.api.ask("POST", f"/v1/nodes/{fqdn}/{verb}", body, own, If_Match="*")
        assert said.status_code == 200, said.text


def test_an_installation_that_is_over_has_no_token(place: Installers) -> None:
    fqdn, boot = place.machine()
    path = paths.noderole("os", fqdn)
    znode = place.session.get(path)
    assert znode is not None
    ended = replace(codec.decode(NodeRole, znode), state=State.ERROR)
    place.session.commit([Set(path, ended, znode.version)])
    deadline = time.monotonic() + 20.0
    while (answer := place.identify(fqdn, boot)).status_code != 401:
        assert (answer.status_code, time.monotonic() < deadline) == (409, True)

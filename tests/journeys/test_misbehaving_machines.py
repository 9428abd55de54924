"""Machines that misbehave while they are installed: each gives a sentence with the observation, and a retry installs them.

Annealers, the server of the API and the sshd of the machines are real. The installer is the Agent, which speaks over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from nodepool_ocb.errors import Conflict
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.joining import Inventory, MachineFacts
from nodepool_ocb.model.records import Create
from nodepool_ocb.operations.installations.progress import ReportKind
from nodepool_ocb.operations.operation import Operation
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.journeys.fleet import Fleet
from tests.journeys.installing import INSTALL, MAC, Agent, InstallFleet

Step = InstallStep
long = pytest.mark.long
ANOTHER_MAC: Final = "52:54:00:00:00:01"
SERIAL: Final = "S7"


class Village:
    """A cluster with a server of the API, and one machine that is to be installed."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.site = fleet, InstallFleet(fleet, rebooting=8.0, identified=20.0, published_local=8.0)
        self.fqdn = self.site.fqdn
        self.api = ServedApi(fleet.settings(30.0), fleet.folder / "api")
        inventory = Inventory(facts=MachineFacts(serial=SERIAL))
        fleet.session.commit([Create(paths.inventory(self.fqdn), inventory)])
        fleet.bind(INSTALL, self.fqdn)
        fleet.annealer().begin()

    def explained(self) -> str:
        """The words of ``explain``, as the API gives them to a client."""
        line = self.api.call("noderole/explain", {"noderoles": [self.site.name]})[0]
        assert isinstance(line, dict)
        [[_, words]] = line["answer"]
        return str(words)

    def joins(self, address: str, mac: str = MAC, serial: str = "") -> httpx.Response:
        """A machine in the environment for unknown machines, or one that pretends to be, registers."""
        if not hasattr(self, "token"):
            self.token = self.api.direct.token(name="join", role="join")
        body = {"macs": [mac], "inventory": {"serial": serial}, "host_keys": [], "secret": ""}
        with httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=30.0) as client:
            headers = {"Authorization": f"Bearer {self.token}"}
            return client.post(f"{self.api.address}/v1/registrations", json=body, headers=headers)


class WebAgent(Agent):
    """An installer that speaks over HTTP, with the token of its boot, and then with its own."""

    def __init__(self, village: Village) -> None:
        super().__init__(village.site)
        self.village, self.boot, self.own = village, village.site.token, ""

    def perform(self, operation: Operation[Any], login: str) -> Any:  # noqa: ARG002
        """Raises Conflict for a refusal."""
        name = type(operation).__name__
        fields = {each: getattr(operation, each) for each in operation.__struct_fields__ if each != "node"}
        place = f"/v1/nodes/{self.village.fqdn}/installation"
        if name == "InstallationIdentity":
            answer = self._ask("POST", f"{place}/identity", self.boot, fields)
            self.own = answer.token
            return answer
        if name == "InstallationReport":
            return self._ask("POST", f"{place}/report", self.own, fields)
        return self._ask("GET", place, self.own, None)

    def _ask(self, method: str, place: str, token: str, body: Any) -> Any:
        answer = self.village.api.ask(method, place, body, token)
        if answer.status_code == 409:
            raise Conflict(answer.json()["detail"])
        assert answer.status_code in (200, 202), answer.text  # 202: the machine has no leave yet
        return Fields(answer.json()["answer"])


class Fields:
    """An answer with its keys as attributes."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.__dict__.update(given)


@pytest.fixture
def village(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Village]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        made = Village(fleet)
        yield made
        made.api.close()


# -- the misbehaviour: before it the machine was told to boot, and went down --


def boots_from_its_disk(village: Village, _: Agent) -> None:
    (village.site.home / "boot_id").write_text("boot-from-disk\n")
    village.fleet.farm.start(0)


def never_speaks(_: Village, __: Agent) -> None:
    """It panics in its first kernel, or has no network: the installer is not heard."""


def loops_with_its_token(_: Village, agent: Agent) -> None:
    agent.identify()
    agent.report(ReportKind.FETCHED, percent=10)
    with pytest.raises(Conflict, match="a second time"):
        agent.identify(boot_id="the-next-boot")


def loops_without_its_token(village: Village, agent: Agent) -> None:
    """The token is used, so the machine gets no order, and cannot say that: it asks to join."""
    agent.identify()
    assert village.joins("127.1.0.7").status_code == 200
    assert f"seen: a machine with its MAC {MAC} asked to join from 127.1.0.7" in village.explained()


def gets_a_corrupt_image(_: Village, agent: Agent) -> None:
    agent.identify()
    agent.report(ReportKind.FAILED, reason="the image has SHA-256 bad, and the order has good")


def writes_a_corrupt_disk(_: Village, agent: Agent) -> None:
    agent.identify()
    agent.report(ReportKind.WRITTEN)
    agent.report(ReportKind.VERIFIED, checksum="sha256:bad")


def has_a_small_disk(_: Village, agent: Agent) -> None:
    agent.identify()
    agent.report(ReportKind.FAILED, reason="disk /dev/vda has 1 GiB, and the image needs 2")


def boots_another_disk(village: Village, agent: Agent) -> None:
    """The former system is on the disk that its firmware boots first."""
    agent.identify()
    agent.writes()
    agent.until_reboot()
    village.fleet.farm.start(0)


def never_returns(_: Village, agent: Agent) -> None:
    agent.identify()
    agent.writes()
    agent.until_reboot()


def returns_with_another_key(village: Village, agent: Agent) -> None:
    never_returns(village, agent)
    village.site.new_key()
    village.site.boots_disk(agent.shown().epoch)


def boots_with_another_mac(_: Village, agent: Agent) -> None:
    with pytest.raises(Conflict, match="booted with MAC"):
        agent.identify(mac=ANOTHER_MAC)


def returns_with_another_mac(village: Village, agent: Agent) -> None:
    """It boots the network by another card, and no server knows that."""
    never_returns(village, agent)
    assert village.joins("127.1.0.8", ANOTHER_MAC, SERIAL).status_code == 200
    seen = f"seen: a machine with its serial number {SERIAL} asked to join from 127.1.0.8"
    assert seen in village.explained()


def is_two_machines(_: Village, agent: Agent) -> None:
    """The second one with this MAC fetched the same script before the first one used the token."""
    agent.identify()
    with pytest.raises(Conflict, match="or a stranger has the token"):
        agent.identify(boot_id="of-the-other", host_key=agent.site.new_key())


FAULTS: Final[dict[Callable[[Village, Agent], None], tuple[str, ...]]] = {
    boots_from_its_disk: (
        "step identified",
        "booted from its disk",
        "boot-from-disk",
        "network first in its boot order",
    ),
    never_speaks: ("step identified was not reached within 8 s", "does not answer"),
    loops_with_its_token: ("used a second time, by boot the-next-boot", "booted the installer again"),
    loops_without_its_token: ("step written was not reached within 20 s", "it boots the network again and again"),
    gets_a_corrupt_image: ("step written: the installer reports: the image has SHA-256 bad",),
    writes_a_corrupt_disk: ("step verified: the disk has checksum sha256:bad, and the image has",),
    has_a_small_disk: ("step written: the installer reports: disk /dev/vda has 1 GiB",),
    boots_another_disk: ("step alive: the system from before the installation answers", "another disk than serial=S1"),
    never_returns: ("step alive was not reached within 8 s", "does not answer"),
    returns_with_another_key: ("step alive was not reached within 8 s", "another host key than the pinned one"),
    boots_with_another_mac: ("step identified", f"booted with MAC {ANOTHER_MAC}, and the node has {MAC}"),
    returns_with_another_mac: (
        "step alive was not reached within 8 s",
        f"with MAC {ANOTHER_MAC}",
        f"macs={ANOTHER_MAC}",
    ),
    is_two_machines: ("used a second time, by boot of-the-other", "or a stranger has the token"),
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(each, id=each.__name__, marks=() if each is boots_another_disk else long) for each in FAULTS],
)
def test_each_fault_gives_a_sentence_and_a_retry_installs_the_machine(
    village: Village, fault: Callable[[Village, Agent], None]
) -> None:
    site, fleet = village.site, village.fleet
    site.until_told()
    fault(village, WebAgent(village))
    site.until_failed()
    words = village.explained()
    assert [each for each in FAULTS[fault] if each not in words] == [], words
    assert f"nodepool-ocb noderole retry {site.name}" in words
    assert (fleet.node(site.fqdn).bootenv, site.token) == ("local", "")
    fleet.farm.kill(0)
    (site.home / "boot_id").write_text("boot-mended\n")
    fleet.farm.start(0)
    site.retry()
    site.until_told(2)
    WebAgent(village).installs()
    fleet.until_all_active()


@long
def test_a_second_machine_with_the_mac_is_shown_and_stops_no_installation(village: Village) -> None:
    site = village.site
    site.until_told()
    agent = WebAgent(village)
    agent.identify()
    assert village.joins("127.1.0.7").status_code == 200
    assert village.joins("127.1.0.8").status_code == 409, "a third one"
    words = village.explained()
    assert "another machine with this MAC, which 127.1.0.8 claims, too; see: nodepool-ocb registration show" in words
    agent.writes()
    site.boots_disk(agent.until_reboot().epoch)
    village.fleet.until_all_active()
    assert "seen:" not in village.explained(), "the machine is installed, so it is known which one it is"


@long
def test_a_machine_without_a_system_is_installed_when_a_person_starts_it_from_the_network(village: Village) -> None:
    site = village.site
    site.until_told()
    never_returns(village, WebAgent(village))
    site.until_failed("does not answer")
    site.retry()
    village.fleet.until(lambda: "start it from the network by hand" in village.explained(), "explain says so")
    WebAgent(village).installs()
    village.fleet.until_all_active()
    assert site.reboots() == 1

"""Machines that are installed without a network boot: sshd processes, and an agent that speaks as an installer does.

The reboot command of the machine writes a file. The test then ends the machine, has the agent speak, and starts another
machine in its place: with another host key, another boot id, and the state directory that the order names.
"""

from __future__ import annotations

import subprocess
import uuid
from typing import Any, Final

from msgspec.structs import replace

from nodepool_ocb.config import Settings
from nodepool_ocb.engine.noderole import Event
from nodepool_ocb.model import paths
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.images import Build, BuildState
from nodepool_ocb.model.installation import BootToken, Installation, InstallStep
from nodepool_ocb.model.records import Create, Node, NodeRole, Role, Set, State
from nodepool_ocb.operations.installations.identity import InstallationIdentity
from nodepool_ocb.operations.installations.progress import InstallationReport, InstallationShow, ReportKind
from nodepool_ocb.operations.operation import Call, Operation
from nodepool_ocb.operations.performer import Performer
from nodepool_ocb.provisioning import boot, publications
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.world.load import load_world
from tests.journeys.fleet import DEPLOYMENT, Fleet

INSTALL, IMAGE, BUILD = "provisioner-os-install", "debian", "0000000001"
SUM: Final = "a" * 64
MAC: Final = "52:54:00:12:34:56"


class Quiet:
    """A caller without notes."""

    def note(self, text: str) -> None: ...
    def agree(self, text: str, details: object) -> bool:  # noqa: ARG002
        return True


def performed(fleet: Fleet, operation: Operation[Any], login: str = "ann", **call: Any) -> Any:
    """The answer of an operation; ``call``: its circumstances, as ``dry_run``."""
    settings = fleet.settings(30.0)
    made = Performer(Call(login=login, host="machine", **call), Quiet(), lambda: Settings(zookeeper=settings))
    return made.perform(operation).answer


class InstallFleet:
    """A fleet with an image, and a role that installs its machines; this is one of them, the first by default."""

    def __init__(self, fleet: Fleet, machine: int = 0, **step_seconds: float) -> None:
        self.fleet, self.machine = fleet, machine
        self.fqdn = fleet.nodes[machine]
        self.mac = f"{MAC[:-2]}{56 + machine}"
        self.home = fleet.farm.state_dir(self.fqdn).parent
        (self.home / "boot_id").write_text("boot-of-before\n")
        self.attributes: dict[str, Any] = {"provisioner": {
            "image": IMAGE,
            "disk": {"serial": "S1"},
            "boot-id": str(self.home / "boot_id"),
            "reboot": f"echo once >>{self.home}/reboots",
            "step-seconds": dict(step_seconds),
        }}  # fmt: skip
        self.role = Role(barclamp="provisioner", jig="install", flags=("destructive",), template=self.attributes)
        fleet.set_node(self.fqdn, allow_install=True, macs=(self.mac,))
        if machine == 0:
            fleet.add_role(INSTALL, self.role)
            for path in (paths.IMAGES, paths.image(IMAGE), paths.builds(IMAGE)):
                fleet.session.ensure(path)
            fleet.session.commit([Create(paths.build(IMAGE, BUILD), build())])

    def was_installed(self, role: str = INSTALL) -> str:
        """A noderole that installed the machine some time ago, or did other work that is done once."""
        record = NodeRole.of(state=State.ACTIVE, since=0.0, deployment=DEPLOYMENT, once="done", generation=1)
        path = paths.noderole(role, self.fqdn)
        self.fleet.session.commit([Create(path, record), Create(paths.runs(role, self.fqdn))])
        self.fleet.session.commit([Create(paths.user(role, self.fqdn), self.attributes)])
        return paths.noderole_name(role, self.fqdn)

    # -- the records --

    @property
    def checksum(self) -> str:
        """Of the image."""
        return f"sha256:{SUM}"

    @property
    def name(self) -> str:
        """The noderole that installs the machine."""
        return paths.noderole_name(INSTALL, self.fqdn)

    @property
    def record(self) -> Installation | None:
        """The newest installation."""
        znode = self.fleet.session.get(paths.installation(self.fqdn))
        return codec.decode(Installation, znode) if znode is not None else None

    @property
    def token(self) -> str:
        """The token of the boot."""
        znode = self.fleet.session.get(paths.boot_token(self.fqdn))
        return codec.decode(BootToken, znode).text if znode is not None else ""

    def until_step(self, step: InstallStep, seconds: float = 30.0) -> Installation:
        """The record when it has reached a step."""
        self.fleet.until(lambda: self.record and self.record.step is step, f"step {step}", seconds)
        found = self.record
        assert found is not None
        return found

    def until_failed(self, *words: str) -> str:
        """The reason of the failure, which has these words."""
        self.fleet.until_state(self.name, State.ERROR)
        reason = self.fleet.record(self.name).reason or ""
        for word in words:
            assert word in reason
        return reason

    def retry(self) -> None:
        """A person has mended the cause."""
        self.fleet.happens(self.name, Event.RETRY)

    # -- the machine --

    def reboots(self) -> int:
        """How often the machine was told to boot."""
        file = self.home / "reboots"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def until_told(self, times: int = 1) -> None:
        """Wait until it was told to boot so often; then it goes down."""
        self.fleet.until(lambda: self.reboots() == times, "the machine is told to boot")
        self.fleet.farm.kill(self.machine)

    def new_key(self) -> str:
        """The host key of the new disk."""
        file = self.home / "another_key"
        for each in (file, file.with_suffix(".pub")):
            each.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)], check=True)
        return " ".join(file.with_suffix(".pub").read_text().split()[:2])

    def boots_disk(self, epoch: int, boot_id: str | None = None) -> None:
        """The machine boots from its new disk: no state but the epoch that the installer wrote."""
        self.fleet.farm.kill(self.machine)
        self.fleet.farm.lose_state(self.machine)
        state = self.fleet.farm.state_dir(self.fqdn)
        state.mkdir(mode=0o700)
        (state / "epoch.0").write_text(f"{epoch} - {epoch}\n")
        (self.home / "boot_id").write_text(f"{boot_id or uuid.uuid4()}\n")
        self.fleet.farm.start_another(self.machine)


class BootServer:
    """A server of boot files, as its records show it: it publishes when the test says so."""

    def __init__(self, site: InstallFleet, fqdn: str = "admin.farm.example.com") -> None:
        self.site, self.fqdn = site, fqdn
        self.address = f"http://{fqdn}:8480"
        fleet = site.fleet
        fleet.add_node(fqdn, Node(admin=True, virtual=True, alive=True))
        fleet.nodes.remove(fqdn)  # no machine of the farm
        role = paths.noderole(boot.DHCP, fqdn)
        fleet.session.commit(
            [Create(role, NodeRole(state=State.ACTIVE, since=0.0)), Create(paths.runs(boot.DHCP, fqdn))]
        )
        fleet.session.commit([Create(paths.publisher(self.name), Publisher(directory="d", address=self.address))])

    @property
    def name(self) -> str:
        """The noderole that publishes."""
        return paths.noderole_name(boot.DHCP, self.fqdn)

    @property
    def waiting(self) -> bool:
        """Whether the present document of the machine is not published."""
        return self.fqdn in publications.unpublished(load_world(self.site.fleet.session), self.site.fqdn)

    def publish(self) -> None:
        """Activate the files that the machine must have now."""
        session = self.site.fleet.session
        digest = boot.wanted(load_world(session), self.site.fqdn).digest
        path, made = paths.publication(self.name, self.site.fqdn), Publication(digest=digest, directory="d")
        before = session.get(path)
        session.commit([Create(path, made) if before is None else Set(path, made, before.version)])


class Agent:
    """An installer that speaks straight to ZooKeeper, by the operations that a server of the API performs."""

    def __init__(self, site: InstallFleet) -> None:
        self.site = site
        self.boot_id, self.host_key = str(uuid.uuid4()), site.new_key()

    def perform(self, operation: Operation[Any], login: str) -> Any:
        """The answer of an operation."""
        return performed(self.site.fleet, operation, login)

    def identify(self, mac: str = "", **changed: str) -> Any:
        """Show the token of the boot; gives token and order."""
        fields = {"boot_id": self.boot_id, "host_key": self.host_key, "mac": mac or self.site.mac} | changed
        record = self.site.record
        assert record is not None
        return self.perform(InstallationIdentity(node=self.site.fqdn, **fields), f"boot:{record.token}")

    def report(self, step: ReportKind, **fields: Any) -> None:
        """A word of the installer."""
        self.perform(InstallationReport(node=self.site.fqdn, step=step, **fields), "machine")

    def writes(self) -> None:
        """The image is on the disk, and verified."""
        self.report(ReportKind.FETCHED, percent=50)
        self.report(ReportKind.WRITTEN, percent=100)
        self.report(ReportKind.VERIFIED, checksum=f"sha256:{SUM}")

    def shown(self) -> Any:
        """The progress of the installation."""
        return self.perform(InstallationShow(node=self.site.fqdn), "machine")

    def until_reboot(self) -> Any:
        """The progress when the machine may boot from its disk."""
        self.site.until_step(InstallStep.PUBLISHED_LOCAL)
        shown = self.shown()
        assert shown.reboot
        return shown

    def installs(self) -> None:
        """From its first word to the boot from the disk."""
        order = self.identify().order
        assert (order["checksum"], order["disk"]) == (f"sha256:{SUM}", {"serial": "S1"})
        self.writes()
        self.site.boots_disk(self.until_reboot().epoch)


def build(**fields: Any) -> Build:
    """A READY build of the image."""
    made = Build(
        builder="b", builder_id="b", filename=f"{IMAGE}-{BUILD}", state=BuildState.READY, state_time=0.0,
        formats=("raw",), checksums={"raw": {"sha256": SUM, "size": 1 << 20}},
    )  # fmt: skip
    return replace(made, **fields)

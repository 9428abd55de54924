"""Installations whose machines have a serial console at a real BMC: the log of the run, and the words of ``explain``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb import power
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.power import MachinePower
from nodepool_ocb.model.records import Create, State
from nodepool_ocb.operations.noderoles.explaining import NoderoleExplain
from nodepool_ocb.power import Endpoint
from nodepool_ocb.testing import bmcs
from nodepool_ocb.testing.bmcs import PASSWORD, USER, IpmiBmc
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.fleet import Fleet
from tests.journeys.installing import INSTALL, Agent, InstallFleet

pytestmark = pytest.mark.skipif(bmcs.lacking() is not None, reason=str(bmcs.lacking()))


@pytest.fixture
def fleet(zookeeper: Server, chroot: str, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(zookeeper, chroot, tmp_path) as fleet:
        yield fleet


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[IpmiBmc]:
    with IpmiBmc(tmp_path / "bmc") as made:
        yield made


def given_power(fleet: Fleet, fqdn: str, address: str) -> None:
    """A power record, whose password is in a file that only annealers with ``secrets`` may read."""
    (fleet.folder / "password").write_text(PASSWORD)
    password = {"$secret": f"file:{fleet.folder}/password"}
    record = MachinePower(driver="ipmi", address=address, username=USER, password=password)
    fleet.session.commit([Create(paths.power(fqdn), record)])


def annealer(fleet: Fleet) -> CutDaemon:
    """One that keeps its logs where the others of this host do."""
    made = fleet.annealer(log_dir=str(fleet.folder / "logs"), power_effect_seconds=2.0)
    made.configure(secrets={"directory": str(fleet.folder)})
    return made.begin()


def log_of(site: InstallFleet) -> str:
    """The log of the present run."""
    run = site.fleet.record(site.name).run
    file = site.fleet.folder / "logs" / site.fqdn / f"{INSTALL}-{run}.log"
    return file.read_text() if file.exists() else ""


def explained(site: InstallFleet) -> str:
    answer = Agent(site).perform(NoderoleExplain(noderoles=(site.name,)), "ann")
    return str(answer)


@pytest.mark.long
def test_a_panic_on_the_console_is_in_explain_and_another_annealer_goes_on_reading(fleet: Fleet, bmc: IpmiBmc) -> None:
    site = InstallFleet(fleet)
    given_power(fleet, site.fqdn, bmc.address)
    fleet.bind(INSTALL, site.fqdn)
    first = annealer(fleet)
    site.until_step(InstallStep.REBOOTING)
    token = site.token
    fleet.until(lambda: "SOL Session operational" in log_of(site), "the console is open")
    fleet.until(lambda: bmc.serial.readers, "the BMC reads the line")
    bmc.serial.say(f"Command line: ocb.boot={token}\r\n[ 1.0] Kernel panic - not syncing: No init found.\r\n")
    shows = 'the console shows that its kernel panicked: "Kernel panic - not syncing: No init found."'
    fleet.until(lambda: shows in explained(site), "explain quotes it")
    assert token not in log_of(site)
    assert site.fleet.record(site.name).state is State.TRANSITION, "a panic ends no run: the machine may boot again"
    first.kill()
    annealer(fleet)
    fleet.until(lambda: log_of(site).count("SOL Session operational") == 2, "the next one takes the session over")
    assert "Kernel panic" in log_of(site), "its log begins with that of the run that it continues"
    bmc.serial.say("the installer begins\r\n")
    fleet.until(lambda: "the installer begins" in log_of(site), "it reads")
    Agent(site).installs()
    fleet.until_all_active()
    record = site.record
    assert record is not None
    assert record.console is None, "it belongs to a step that is over"
    run = fleet.runs(site.name)[str(fleet.record(site.name).run)]
    assert (run.log or "").endswith(f"/{INSTALL}-{fleet.record(site.name).run}.log")
    fleet.until(lambda: "sol activate" not in programs(bmc), "no program stays behind")


def programs(bmc: IpmiBmc) -> str:
    """The command lines of this host that name the port of the BMC."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(line for line in lines if f"-p {bmc.port} " in line)


def test_a_known_line_of_the_console_is_in_the_log_of_the_run_and_in_explain(fleet: Fleet, bmc: IpmiBmc) -> None:
    site = InstallFleet(fleet)
    given_power(fleet, site.fqdn, bmc.address)
    fleet.bind(INSTALL, site.fqdn)
    annealer(fleet)
    fleet.until(lambda: "SOL Session operational" in log_of(site), "the console is open")
    fleet.until(lambda: bmc.serial.readers, "the BMC reads the line")
    site.until_step(InstallStep.REBOOTING)
    older = tokens.text("00000000002a", bytes(32))  # of an older script: no record has it
    bmc.serial.say(f"Command line: ocb.boot={older}\r\nNo bootable device.\r\n")
    fleet.until(lambda: 'its firmware finds no system: "No bootable device."' in explained(site), "explain quotes it")
    assert "ocb.boot=(secret)" in log_of(site)
    assert older[-20:] not in log_of(site)
    assert "No bootable device." in log_of(site)


@pytest.mark.long
def test_a_console_that_another_reader_has_is_noted_and_read_later(fleet: Fleet, bmc: IpmiBmc) -> None:
    site = InstallFleet(fleet)
    given_power(fleet, site.fqdn, bmc.address)
    access = Endpoint(driver="ipmi", address=bmc.address, username=USER, password=PASSWORD)
    with contextlib.closing(power.console(access)) as person:
        fleet.until(lambda: b"operational" in person.read(), "a person watches the console")
        fleet.bind(INSTALL, site.fqdn)
        annealer(fleet)
        site.until_step(InstallStep.REBOOTING)
        fleet.until(lambda: "already active on another session" in log_of(site), "the log says so")
    assert fleet.record(site.name).state is State.TRANSITION, "that fails no installation"
    fleet.until(lambda: "SOL Session operational" in log_of(site), "it is read as soon as the person has left")
    fleet.until(lambda: bmc.serial.readers, "the BMC reads the line")
    bmc.serial.say("No bootable device.\r\n")
    fleet.until(lambda: 'its firmware finds no system: "No bootable device."' in explained(site), "explain quotes it")

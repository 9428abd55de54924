"""Two machines lose their power at seeded moments between power and ACTIVE; each is installed in the end, or states the reason.

A loss of power is SIGKILL for the QEMU of the machine, which begins again some seconds later. Its memory is lost, and so may be
every write to its disk that it had not flushed. Its BMC is the same QEMU, and is away meanwhile.

At each look, an ACTIVE installation must have its last step. Where a machine is ACTIVE, it runs from its disk, and each file of
the image must be there, byte for byte.

``OCB_POWER_LOSSES`` is the number of losses of both machines together; the seed is that of the storms (``OCB_STORM_SEED``).
"""

from __future__ import annotations

import hashlib
import os
import random
import tarfile
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep
from nodepool_ocb.model.records import NodeRole, State
from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.storm import seeded
from nodepool_ocb.testing.virtual import metalimages, preparing, walking
from nodepool_ocb.testing.virtual.machine import VirtualDisk
from nodepool_ocb.testing.virtual.site import MetalSite
from nodepool_ocb.testing.virtual.walking import DISK_MB, STEP_SECONDS, Walker
from tests.journeys.machines.test_first_machine import MISSING, ROLES, images_of_here, site_with

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
LOSSES: Final = 20
#: The longest time from power, or from an order to install again, to a loss: about that of a whole way.
SPAN_SECONDS: Final = 330.0
OUTAGE_SECONDS: Final = 10.0  # at most
COMES_BACK: Final = 0.4  # of the losses: the machine becomes ACTIVE before the next one


def test_machines_that_lose_their_power_are_installed(tmp_path: Path) -> None:
    seed, losses = seeded(), int(os.environ.get("OCB_POWER_LOSSES", LOSSES))
    print(f"seed {seed}, {losses} losses")
    with site_with(tmp_path, images_of_here(), boot="bios") as site:
        sums = image_sums(walking.build_of(site, metalimages.SYSTEM))
        preparing.adopt_all(site.ocb)
        with (
            _Sufferer(site, 1, seed, sums) as one,
            _Sufferer(site, 2, seed, sums) as two,
            ThreadPoolExecutor(2) as both,
        ):
            ends = [both.submit(each.suffers, losses // 2) for each in (one, two)]
            try:
                wait(ends, return_when=FIRST_EXCEPTION)
                for end in ends:
                    if end.done():
                        end.result()
            finally:
                one.ends = two.ends = True
                print(f"seed {seed}", *one.story, *two.story, sep="\n")


def image_sums(tar: Path) -> str:
    """The files of an image below /usr and /boot as ``sha256sum --check`` reads them; the boot loader writes its own."""
    lines = []
    with tarfile.open(tar) as image:
        for member in image:
            name = member.name.removeprefix("./")
            if (
                not (member.isreg() or member.islnk())
                or not name.startswith(("usr/", "boot/"))
                or name.startswith("boot/grub/")
            ):
                continue
            content = image.extractfile(member)
            assert content is not None
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  /{name}\n")
    return "".join(lines)


class _Sufferer(Walker):
    """A machine that loses its power. ``story``: a line for each loss and each return, with the words of ``explain``."""

    def __init__(self, site: MetalSite, number: int, seed: int, sums: str) -> None:
        disk = VirtualDisk(size_mb=DISK_MB, serial=f"disk{number}", durable=True)
        super().__init__(site, number, disks=(disk,))
        self._chance, self._sums = random.Random(seed + number), sums
        self._noderole = f"{preparing.INSTALL}@{self.fqdn}"
        self._began, self._switchable, self._retried = time.monotonic(), False, 0
        self.story: list[str] = []
        self.ends = False  # the other machine's test has failed

    def suffers(self, losses: int) -> None:
        """So many losses; then it must become ACTIVE."""
        self.switch_on()
        left, moment = losses, self._moment()
        while left:
            if self._becomes_active(within=moment):
                self._is_whole()
                self._begins_again()
            else:
                self._loses_power(moment)
                left -= 1
                if self._chance.random() < COMES_BACK:
                    assert self._becomes_active(within=STEP_SECONDS), self._words()
                    self._is_whole()
                    if left:
                        self._begins_again()
            moment = self._moment()
        assert self._becomes_active(within=STEP_SECONDS), self._words()
        self._is_whole()

    def _moment(self) -> float:
        return self._chance.uniform(0.0, SPAN_SECONDS)

    def _becomes_active(self, within: float) -> bool:
        """Whether all its noderoles are ACTIVE before that time is over. A person follows ``explain`` meanwhile."""
        looked = time.monotonic()
        deadline = looked + within
        while looked < deadline:
            assert not self.ends, "the other machine failed"
            if self._looks():
                return True
            looked = rest(looked)
        return False

    def _looks(self) -> bool:
        """One look: an installation that is ACTIVE is over; the power record is made; a noderole in ERROR is tried again."""
        states = self.site.states(self.fqdn)
        if not states:
            return False
        if not self._switchable:
            self.site.ocb("power", "set", self.fqdn, "driver=qemu", f"address=unix:{self.bmc}")
            self._switchable = True
        place = paths.noderole(preparing.INSTALL, self.fqdn)
        before, found, after = self.site.record(NodeRole, place), self.installation, self.site.record(NodeRole, place)
        if before == after and before is not None and before.state is State.ACTIVE:
            assert found is not None
            assert (found.step, found.reason) == (InstallStep.ALIVE, None), "ACTIVE, and not installed"
        if found is not None and found.reason is None and "noderole cancel" in (found.requests or ""):
            self._gives_up(found.requests or "")
        for role, state in states.items():
            if state is State.ERROR:
                self._tries_again(f"{role}@{self.fqdn}")
        return set(states.values()) == {State.ACTIVE}

    def _gives_up(self, observed: str) -> None:
        """The installer lost its order with the power, so a person ends the run, as ``explain`` says."""
        assert observed in self._words()
        self._tell(f"is given up: {observed}")
        self.site.ocb("noderole", "cancel", self._noderole)
        self.site.until(
            lambda: self.failure(preparing.INSTALL) is not None, "the cancelled run has ended", STEP_SECONDS
        )

    def _tries_again(self, noderole: str) -> None:
        """The reason and the command must be in the words of ``explain``."""
        words = self.site.ocb("noderole", "explain", noderole)
        self._tell(f"{noderole} failed:\n{words}")
        assert f"noderole retry {noderole}" in words, words
        self.site.ocb("noderole", "retry", noderole)

    def _loses_power(self, moment: float) -> None:
        found, states = self.installation, self.site.states(self.fqdn)
        step = found.step if found is not None and found.reason is None else None
        active = sum(state is State.ACTIVE for state in states.values())
        self.machine.off()
        self._waits(self._chance.uniform(0.0, OUTAGE_SECONDS))
        self._tell(
            f"lost its power {moment:.0f} s after; step {step}, {active} of {len(states)} ACTIVE\n{self._words()}"
        )
        self.bmc.unlink(missing_ok=True)  # of the QEMU that was killed
        self.machine.on(6 * STEP_SECONDS)
        self.site.until(self.bmc.exists, "its BMC is there", OUTAGE_SECONDS * 6)
        self.power.on()

    def _waits(self, seconds: float) -> None:
        looked = time.monotonic()
        back = looked + seconds
        while looked < back:
            self._looks()
            looked = rest(looked)

    def _words(self) -> str:
        """Those of ``explain``; they name an observation or a step while it is installed."""
        if not self.site.states(self.fqdn):
            return "it is no node yet"
        words = self.site.ocb("noderole", "explain", self._noderole)
        assert self._noderole in words, words
        return words

    def _is_whole(self) -> None:
        """It runs from its disk, and has each file of the image."""
        assert len(self.site.states(self.fqdn)) == ROLES
        (key,) = self.node.host_keys
        said = self.asks(
            "hostname; findmnt -no SOURCE /; cd / && sha256sum --check --quiet --strict 2>&1 || :",
            key,
            given=self._sums,
        )
        assert said.split() == [f"n{self.number}", "/dev/sda3"], said
        self._tell(f"is ACTIVE and whole; {self.heard('identified as')} installers")

    def _begins_again(self) -> None:
        self.site.ocb("node", "reinstall", self.fqdn, "--yes")
        self._tell("is installed again")

    def _tell(self, words: str) -> None:
        line = f"{time.monotonic() - self._began:.0f} s: {self.fqdn} {words}"
        self.story.append(line)
        print(line, flush=True)

"""Two users have one machine of a pool, one after the other: nothing of the first is left on its disk for the second."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import InstallStep, MachineUse
from nodepool_ocb.model.power import Powered
from nodepool_ocb.testing.virtual import metalimages
from nodepool_ocb.testing.virtual.preparing import INSTALL
from nodepool_ocb.testing.virtual.site import DEPLOYMENT, DOMAIN, NETWORK, MetalSite
from nodepool_ocb.testing.virtual.walking import STEP_SECONDS, Walker
from tests.journeys.machines.test_first_machine import MISSING, images_of_here, site_with

pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=MISSING or "")]
SECRET: Final = "the-first-user-wrote-this"
NODEPOOL: Final[Mapping[str, Any]] = {
    "labels": [{"name": "board", "roles": ["sysctl"]}],
    "diskimages": [{"name": metalimages.SYSTEM}],
    "providers": [
        {
            "name": "rack",
            "driver": "metal",
            "pools": [
                {
                    "name": "main",
                    "selector": "tag:lab",
                    "labels": [{"name": "board", "diskimage": metalimages.SYSTEM}],
                }
            ],
        }
    ],
}


def test_two_users_of_a_machine_have_nothing_in_common(tmp_path: Path) -> None:
    with site_with(tmp_path, images_of_here(), boot="bios") as site, Walker(site) as walker, _with_console(walker):
        _is_free(site, walker)
        site.launch(NODEPOOL)
        keys = []
        for use, command in enumerate((f"echo {SECRET} >/root/mark && sync", "cat /etc/hostname"), 1):
            _is_used(site, command)
            walker.noted(f"use {use}")
            keys.append(walker.node.host_keys)
            walker.until(lambda: _returned(site, walker), "returned")
            walker.until(lambda: walker.power.status() is Powered.OFF, "switched off")
            assert walker.runs()[INSTALL] == use, "it is installed once for each use"
            assert walker.step is InstallStep.ALIVE
            assert _holds(walker, SECRET.encode()) == (use == 1)
        assert keys[0] != keys[1]
        assert "sysctl" not in walker.runs()


@contextmanager
def _with_console(walker: Walker) -> Iterator[None]:
    try:
        yield
    finally:
        print(walker.times, walker.agent_said, walker.machine.said[-4000:], sep="\n")


def _is_free(site: MetalSite, walker: Walker) -> None:
    """A rule makes the machine one of the pool; nothing is installed before its first use."""
    site.ocb(
        *("adoption", "set", "lab", f"name=n{{serial}}.{DOMAIN}", f"deployment={DEPLOYMENT}", f"network={NETWORK}"),
        *("tags=lab", "commit=true", "allow_install=true"),
    )
    walker.switch_on()
    walker.until(lambda: walker.registration and walker.registration.node == walker.fqdn, "adopted")
    site.ocb("power", "set", walker.fqdn, "driver=qemu", f"address=unix:{walker.bmc}")
    walker.until(walker.all_active, "its roles are ACTIVE in the environment")
    assert walker.installation is None


def _is_used(site: MetalSite, command: str) -> None:
    """A user leases the machine and runs a command on it; the lease ends with the command."""
    login = f'ssh -F "$LEASE_SSH_CONFIG" "$LEASE_NAME" {shlex.quote(command)}'
    site.ocb("lease", "run", "--label", "board", "--", "sh", "-c", login, seconds=STEP_SECONDS)


def _returned(site: MetalSite, walker: Walker) -> bool:
    found = site.record(MachineUse, paths.machine_use(walker.fqdn))
    return found is not None and found.returned is not None


def _holds(walker: Walker, words: bytes) -> bool:
    """Whether its disk has these bytes anywhere. QEMU has ended its writing: the power is off."""
    raw, (disk,) = walker.machine.folder / "disk.raw", walker.machine.disks
    subprocess.run(["qemu-img", "convert", "-U", "-O", "raw", str(disk), str(raw)], check=True)
    found = subprocess.run(["grep", "-qaF", words, raw], check=False).returncode
    raw.unlink()
    return found == 0

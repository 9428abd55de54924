"""The agent's functions on this host: a machine of files, and programs that stand in for those that need hardware."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.environment.provisioner import JOIN_TOKEN, NODE, OWN_TOKEN, Provisioner

ENVIRONMENT: Final = Path(__file__).parents[2] / "etc" / "provisioner" / "environment"
LIBRARY: Final = ENVIRONMENT / "usr" / "lib" / "nodepool-ocb"
SHELLS: Final = (("dash",), ("busybox", "sh"))
MAC: Final = "52:54:00:00:00:01"
SECONDS: Final = 60.0
HOST_KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
#: Sources all parts as ocb-agent does, reads the order of a machine that has one, and does nothing yet.
PARTS: Final = (
    'set -u; here=$OCB_LIBRARY; for part in "$here"/agent/*.sh; do . "$part"; done; '
    f'mkdir -p "$OCB_RUN"; mode=install mac={MAC} node={NODE}; say() {{ echo "ocb: $*"; }}\n'
    'if [ -e "$OCB_RUN/identity" ]; then read_order <"$OCB_RUN/identity"; fi\n'
)


class FileMachine:
    """A machine in a folder. ``programs`` stand before those of this host."""

    def __init__(self, folder: Path, shell: tuple[str, ...] = SHELLS[0]) -> None:
        self.folder, self.shell = folder, shell
        self.target = folder / "target"
        self.run_folder = folder / "run"
        self._bin = folder / "bin"
        for name in ("target", "run", "own", "etc", "sys/class/net", "proc/sys/vm", "bin"):
            (folder / name).mkdir(parents=True)
        for name in ("uptime", "meminfo", "cpuinfo", "sys/kernel"):
            (folder / "proc" / name).symlink_to(Path("/proc") / name)
        (folder / "proc/cmdline").write_text("")
        (folder / "host_key").write_text("private\n")
        (folder / "host_key.pub").write_text(f"{HOST_KEY} comment\n")

    def program(self, name: str, script: str) -> None:
        """Put a program before that of this host."""
        file = self._bin / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def counts(self, name: str) -> Callable[[], int]:
        """How often a program of this host is started from now on."""
        program, starts = shutil.which(name), self.folder / f"{name}.starts"
        self.program(name, f'echo >>{starts}\nexec {program} "$@"')
        return lambda: starts.read_text().count("\n") if starts.exists() else 0

    def disks(self, *disks: Mapping[str, Any]) -> None:
        """The disks that lsblk shows."""
        plain = {"type": "disk", "serial": None, "wwn": None, "model": None, "rota": False, "ro": False, "rm": False}
        devices = {"blockdevices": [plain | dict(disk) for disk in disks]}
        self.program("lsblk", f"cat <<'END'\n{json.dumps(devices)}\nEND")

    def boots(self, site: Provisioner, mode: str, **arguments: str) -> None:
        """The boot by an admin node: kernel arguments, and the material of the site."""
        (self.folder / "proc/cmdline").write_text(f"quiet {site.arguments(mode, MAC, **arguments)}\n")
        shutil.copy(site.certificate, self.folder / "etc/ca.pem")
        (self.folder / "etc/join-token").write_text(JOIN_TOKEN + "\n")

    def has_order(self, site: Provisioner) -> None:
        """The machine identified itself."""
        (self.folder / "etc/authorized_keys").write_text("ssh-ed25519 AAAAannealer\n")
        (self.run_folder / "identity").write_text(json.dumps({"answer": {"token": OWN_TOKEN, "order": site.order}}))
        (self.folder / "own/token").write_text(OWN_TOKEN + "\n")

    def does(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script with all functions of the agent."""
        places = {
            "OCB_ETC": "etc", "OCB_RUN": "run", "OCB_OWN": "own", "OCB_SYS": "sys", "OCB_PROC": "proc",
            "OCB_HOST_KEY": "host_key", "OCB_TARGET": "target",
        }  # fmt: skip
        variables = {name: str(self.folder / place) for name, place in places.items()}
        path = f"{self._bin}:{os.environ['PATH']}:/usr/sbin:/sbin"
        return subprocess.run(
            [*self.shell, "-c", PARTS + script],
            env={"PATH": path, "OCB_LIBRARY": str(LIBRARY), **variables, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

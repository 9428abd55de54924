"""A private container engine (dockerd of Debian's package docker.io), which leaves nothing behind.

It runs in process and mount namespaces of its own, so its end is the end of all its processes, containers and mounts.
It dies with the thread that started it. It does not change the host's firewall. It has no network before ``add_network`` makes a
bridge, which hosts and containers share; ``close`` removes it. Needs root.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final

START_SECONDS: Final = 60.0

#: The script in the namespaces. An engine writes to /run and to /etc/docker with any options: it has its own.
SCRIPT: Final = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p {folder}/etc {folder}/work
mount -t overlay -o lowerdir=/etc,upperdir={folder}/etc,workdir={folder}/work overlay /etc
exec dockerd --host unix://{folder}/socket --data-root {folder}/data --exec-root {folder}/exec --pidfile {folder}/pid \
    --bridge=none --iptables=false --ip-forward=false --ip-masq=false --cgroup-parent {cgroup} {more}
"""


def why_not() -> str | None:
    """Why there can be no engine here; None when there can."""
    missing = [name for name in ("dockerd", "containerd", "runc", "unshare", "setpriv") if not shutil.which(name)]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: docker.io)"
    if os.geteuid() != 0:
        return "an engine needs root"
    return None


class Engine:
    """A context manager; ``url`` is where it listens."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ocb-engine-"))
        self.url = f"unix://{self.directory}/socket"
        self.cgroup = f"ocb-engine-{secrets.token_hex(4)}"
        self._bridges: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Engine:
        try:
            if not (self._serves() or self._serves("--storage-driver=vfs")):
                raise RuntimeError(f"dockerd did not start:\n{self._log.read_text(errors='replace')[-2000:]}")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it and everything that it started, and remove its folder."""
        self._end()
        for bridge in self._bridges:
            subprocess.run(["ip", "link", "delete", bridge], check=False, capture_output=True)
        for folder in sorted(Path("/sys/fs/cgroup").glob(f"**/{self.cgroup}/**/"), reverse=True):
            folder.rmdir()
        shutil.rmtree(self.directory)

    def run(self, *arguments: str, timeout_seconds: float = 60.0) -> str:
        """The output of the command ``docker``; raises CalledProcessError if it fails."""
        command = ["docker", "--host", self.url, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_seconds).stdout

    def add_network(self) -> str:
        """The name of a new network: a bridge between this host and containers, without a way to other hosts."""
        name = f"ocb{secrets.token_hex(4)}"
        self._bridges.append(name)
        subnet = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(256)}.0/24"  # two engines may begin at once
        self.run("network", "create", "--subnet", subnet, "--opt", f"com.docker.network.bridge.name={name}", name)
        return name

    @property
    def _log(self) -> Path:
        return self.directory / "log"

    def _serves(self, more: str = "") -> bool:
        """Start it; whether it serves. With an engine that does not, nothing runs any more."""
        script = SCRIPT.format(folder=shlex.quote(str(self.directory)), cgroup=self.cgroup, more=more)
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", script]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *inside], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if b"API listen on" in self._log.read_bytes():
                return True
            time.sleep(0.02)
        self._end()
        return False

    def _end(self) -> None:
        if self._process is None:
            return
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if self._process.poll() is None else []
        for child in children or [str(pid)]:
            os.kill(int(child), signal.SIGKILL)  # the first inside: its parent learns of its death when all are dead
        self._process.wait()
        self._process = None

"""An admin node of a virtual network: a namespace with files of its own, and an sshd that annealers and builders log in to.

It has the programs of the test's host. Its changes below /etc, /root and /var lie in memory, and /run and /srv are empty. So the
roles of admin nodes run there as on a machine. All ends with the namespace, as by a loss of power.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from nodepool_ocb.testing.looks import rest
from nodepool_ocb.testing.virtual.namespaces import START_SECONDS, InnerProgram, Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork

TOP: Final = "/srv/nodepool-ocb"
DAY_SECONDS: Final = 86400.0
_OWN: Final = ("etc", "root", "var")
_OVERLAYS: Final = f"""\
set -e
layers=$1
mkdir -p "$layers"
mount -t tmpfs tmpfs "$layers"
for part in {" ".join(_OWN)}; do
  mkdir "$layers/$part" "$layers/$part.work"
  mount -t overlay overlay -o "lowerdir=/$part,upperdir=$layers/$part,workdir=$layers/$part.work" "/$part"
done
mount -t tmpfs tmpfs /var/lib
mkdir -p /srv && mount -t tmpfs tmpfs /srv
mount -t tmpfs tmpfs /run
mkdir /run/sshd
"""
_SSHD: Final = """\
ListenAddress {address}:22
HostKey {key}
AuthorizedKeysFile {authorized}
SetEnv SHLVL=3
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
PrintMotd no
PrintLastLog no
MaxStartups 100
LogLevel ERROR
"""


class AdminHost(Namespace):
    """A context manager; ``authorized`` is the file with the public keys that may log in as root."""

    def __init__(self, network: VirtualNetwork, fqdn: str, address: str, authorized: Path) -> None:
        super().__init__(network.folder.parent, fqdn.partition(".")[0])
        self.network, self.fqdn, self.address = network, fqdn, address
        self._authorized = authorized
        self.host_key = ""
        self._sshd: InnerProgram | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all its programs, as by a loss of power."""
        super().close()
        if self._sshd is not None:
            self._sshd.wait(START_SECONDS)

    def read(self, path: str) -> str:
        """A file below the directory of the boot server; empty if there is none."""
        return self.run("sh", "-c", f"cat {TOP}/{path} 2>/dev/null || :")

    def kill_servers(self) -> None:
        """SIGKILL for its dnsmasq and its nginx."""
        self.run("sh", "-c", f"kill -9 $(cat {TOP}/run/dnsmasq.pid {TOP}/run/nginx.pid) 2>/dev/null || :")

    def _begin(self) -> None:
        self.network.attach(self, f"{self.address}/24")
        self.run("sh", "-c", _OVERLAYS, "sh", str(self.folder / "layers"))
        key = self.folder / "host_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
        self.host_key = " ".join(key.with_suffix(".pub").read_text().split()[:2])
        config = self.folder / "sshd_config"
        config.write_text(_SSHD.format(address=self.address, key=key, authorized=self._authorized))
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
        if sshd is None:
            raise FileNotFoundError("there is no sshd: install openssh-server")
        self._sshd = self.start(sshd, "-D", "-e", "-f", str(config), log="sshd.log", deadline_seconds=DAY_SECONDS)
        looked = time.monotonic()
        deadline = looked + 20.0
        while not self.run("sh", "-c", "grep -i ':0016 00000000:0000 0A' /proc/net/tcp || :"):
            if not self._sshd.running() or looked > deadline:
                raise RuntimeError(f"sshd does not listen: {self._sshd.said}")
            looked = rest(looked)

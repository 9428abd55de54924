"""A host with a real systemd: a container of a private engine, with Debian's packages and this checkout in it.

NODEPOOL_OCB_TEST_HOST names a tar file with the root of such a host (``make``); it is made anew where there is none, from
the mirror that apt uses here, which takes minutes.
"""

from __future__ import annotations

import contextlib
import secrets
import site
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from nodepool_ocb.testing.engine import Engine
from nodepool_ocb.testing.processes import await_that

CHECKOUT: Final = Path(__file__).parents[2]
IMAGE: Final = "systemd-host"
PACKAGES: Final = (
    *("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "openssh-server", "openssh-client", "procps"),
    *("default-jre-headless", "zookeeper", "libzookeeper-java", "mmdebstrap", "uidmap", "iproute2", "curl"),
    "ca-certificates",
)
BOOT_SECONDS: Final = 120.0
#: What systemd needs of a container; PTRACE is root's way past ProtectProc=, and a user namespace mounts a /proc of its own.
RIGHTS: Final = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE", "--cgroupns", "private"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--security-opt", "systempaths=unconfined", "--tmpfs", "/run", "--tmpfs", "/tmp:exec"),
)
#: What `pip install` makes, for tests that have no network; and a ZooKeeper as zookeeperd has it, on this port.
INSTALL: Final = """\
python3 -m venv --without-pip /opt/nodepool-ocb
printf '/srv/checkout%s\\n' '' /annealer /builder /launcher /schemas >/opt/nodepool-ocb/lib/python3.11/site-packages/checkout.pth
echo /srv/site-packages >>/opt/nodepool-ocb/lib/python3.11/site-packages/checkout.pth
program() {
  printf '#!/opt/nodepool-ocb/bin/python3\\nfrom %s import main\\nmain()\\n' "$2" >"/opt/nodepool-ocb/bin/$1"
  chmod 755 "/opt/nodepool-ocb/bin/$1"
}
program nodepool-ocb nodepool_ocb.cli.main
program nodepool-ocb-annealer nodepool_ocb_annealer.main
program nodepool-ocb-builder nodepool_ocb_builder.main
program nodepool-ocb-launcher nodepool_ocb_launcher.main
program nodepool-ocb-api nodepool_ocb.api.main
mkdir -p /var/lib/zk
cat >/etc/zk.cfg <<'END'
tickTime=500
dataDir=/var/lib/zk
clientPort=2181
clientPortAddress=127.0.0.1
admin.enableServer=false
END
cat >/etc/systemd/system/zookeeper.service <<'END'
[Service]
ExecStart=java -Xmx128m -XX:+UseSerialGC -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
  org.apache.zookeeper.server.quorum.QuorumPeerMain /etc/zk.cfg
END
systemctl daemon-reload
"""


def make(tar: Path, mirror: str) -> None:
    """The root of a host as a tar file; raises RuntimeError where the mirror does not give it."""
    command = ["mmdebstrap", "--variant=apt", f"--include={','.join(PACKAGES)}", "bookworm", str(tar), mirror]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the mirror {mirror} gave no host: {done.stderr[-500:]}")


class Host:
    """A context manager; ``network`` is the engine's word: none, or this host's own."""

    def __init__(self, engine: Engine, network: str = "none") -> None:
        self._engine, self._network = engine, network
        self._name = f"host-{secrets.token_hex(4)}"

    def __enter__(self) -> Self:
        mounts = [f"{CHECKOUT}:/srv/checkout:ro", f"{site.getsitepackages()[0]}:/srv/site-packages:ro"]
        folders = [word for mount in mounts for word in ("--volume", mount)]
        self._engine.run("run", "--detach", "--name", self._name, "--network", self._network, *RIGHTS, *folders, IMAGE)
        try:
            await_that(
                lambda: self._says("systemctl is-system-running") in ("running", "degraded"), BOOT_SECONDS, "boot"
            )
            self.sh(INSTALL)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self._says("journalctl --no-pager -n 400 -u 'nodepool-ocb*'"))
        self.close()

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._engine.run("rm", "--force", self._name, timeout_seconds=300.0)

    def _do(self, script: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
        inside = ["exec", self._name, "bash", "-euo", "pipefail", "-c", f"cd /srv/checkout\n{script}"]
        command = ["docker", "--host", self._engine.url, *inside]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)

    def _says(self, script: str) -> str:
        return self._do(script, 60.0).stdout.strip()

    # -- what people do --

    def sh(self, script: str, timeout_seconds: float = 300.0) -> str:
        """What a script of root says; fails where it fails."""
        done = self._do(script, timeout_seconds)
        assert done.returncode == 0, (
            f"{script}\n-- exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
        return done.stdout

    def refused(self, script: str, timeout_seconds: float = 300.0) -> str:
        """What a script that has to fail says."""
        done = self._do(script, timeout_seconds)
        assert done.returncode != 0, f"{script}\n{done.stdout}"
        return done.stdout + done.stderr

    def zookeeper(self) -> None:
        """Start it, and wait until it serves."""
        self.sh("systemctl start zookeeper")
        self.until("</dev/tcp/127.0.0.1/2181", "ZooKeeper serves")

    def until(self, script: str, what: str, seconds: float = 120.0) -> None:
        """Wait until a script ends well."""
        deadline = time.monotonic() + seconds
        while (done := self._do(script, seconds)).returncode != 0:
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{done.stdout}{done.stderr}"
            time.sleep(0.3)

    def until_shown(self, unit: str, sentence: str, seconds: float = 120.0) -> None:
        """Wait until `systemctl status` has this sentence."""
        self.until(f"systemctl show --value -p StatusText {unit} | grep -F -- '{sentence}'", sentence, seconds)

    # -- what systemd knows --

    def shown(self, unit: str, key: str) -> str:
        """A property of a unit."""
        return self.sh(f"systemctl show --value -p {key} {unit}").strip()

    def active(self, unit: str) -> bool:
        return self.shown(unit, "ActiveState") == "active"

    def drop_in(self, unit: str, text: str) -> None:
        """More settings of its section Service; `systemctl revert` takes them back."""
        folder = f"/etc/systemd/system/{unit}.service.d"
        self.sh(f"mkdir -p {folder}; printf '[Service]\\n%s\\n' '{text}' >{folder}/test.conf; systemctl daemon-reload")

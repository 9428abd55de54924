"""A host and machines to follow a page on: ``python stage.py SCRIPT ADDRESS...``, as root, runs a shell script there.

Everything is in namespaces of its own (``command``): a network in which ZooKeeper listens on 127.0.0.1:2181 and each
machine's sshd on port 22 of its address; copies of this host's files, one for the host and one for each machine, whose
changes are gone at the end with all processes. The script's folder is the checkout. Root can log in to the machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nodepool_ocb.testing.zookeeper.server import Server

CHECKOUT: Final = Path(__file__).parents[2]
STAGE: Final = Path("/mnt")
#: What this host may have of an installation, which a new host has not.
FOREIGN: Final = (
    *("etc/nodepool-ocb", "opt/nodepool-ocb", "var/lib/nodepool-ocb", "var/log/nodepool-ocb"),
    *("root/.ssh", "root/.config/nodepool-ocb", "tmp/try"),
)
SSHD: Final = """\
ListenAddress {address}:22
HostKey /etc/ssh/stage
AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/stage.pub
PidFile none
UsePAM no
UseDNS no
StrictModes no
PrintMotd no
PrintLastLog no
"""
CLIENT: Final = "IdentityFile /etc/ssh/stage\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n"


def command(script: Path, addresses: Sequence[str], *, network: bool = False) -> list[str]:
    """What runs a script on a stage; ``network`` leaves it this host's network, without machines and ZooKeeper."""
    own = ["--mount", "--pid", "--fork", "--kill-child", *([] if network else ["--net"])]
    return ["unshare", *own, sys.executable, __file__, str(script), *addresses]


def main(script: Path, addresses: Sequence[str]) -> int:
    """Set the stage, and run the script on it; gives its exit status."""
    text = script.read_text()
    _run("mount", "-t", "tmpfs", "tmpfs", STAGE)
    host = _copy("host")
    if not addresses:
        return _run_there(host, text)
    _network(addresses)
    _people_and_machines(host, addresses)
    with Server(fsync=False, port=2181):
        return _run_there(host, text)


def _run_there(host: Path, text: str) -> int:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "LANG": "C.UTF-8"}
    shell = ["chroot", str(host), "bash", "-euxc", f"cd '{CHECKOUT}'\n{text}"]
    return subprocess.run(shell, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


def _run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True)


def _copy(name: str) -> Path:
    """This host's files as a new host has them."""
    root = _laid_over(Path("/"), name)
    _run("mount", "-t", "proc", "proc", root / "proc")
    _run("mount", "--rbind", "/dev", root / "dev")
    _run("rm", "-rf", *(root / each for each in FOREIGN), *root.glob("usr/local/bin/nodepool-ocb*"))
    if not os.path.samestat(os.stat("/"), os.stat(CHECKOUT)) and os.path.ismount(CHECKOUT):
        _run("mount", "--move", _laid_over(CHECKOUT, f"{name}-checkout"), root / CHECKOUT.relative_to("/"))
    return root


def _laid_over(lower: Path, name: str) -> Path:
    upper, work, root = (STAGE / name / each for each in ("upper", "work", "root"))
    for each in (upper, work, root):
        each.mkdir(parents=True)
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", root)
    return root


def _network(addresses: Sequence[str]) -> None:
    _run("ip", "link", "set", "lo", "up")
    for address in addresses:
        _run("ip", "address", "add", f"{address}/32", "dev", "lo")


def _people_and_machines(host: Path, addresses: Sequence[str]) -> None:
    """Root of the host can log in to every machine, as people can before they read our pages."""
    key = host / "etc/ssh/stage"
    _run("rm", "-f", key)
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    (host / "root/.ssh").mkdir(mode=0o700, parents=True)
    (host / "root/.ssh/config").write_text(CLIENT)
    for address in addresses:
        machine = _copy(address)
        (machine / "root/.ssh").mkdir(mode=0o700)
        _run("cp", "-p", key, key.with_suffix(".pub"), machine / "etc/ssh")
        (machine / "etc/ssh/stage_config").write_text(SSHD.format(address=address))
        (machine / "run/sshd").mkdir(parents=True, exist_ok=True)
        _run("chroot", machine, "/usr/sbin/sshd", "-f", "/etc/ssh/stage_config")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

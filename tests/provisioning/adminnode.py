"""An admin node of tests: a namespace in which the scripts of the shipped roles run, on real dnsmasq and nginx."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nodepool_ocb import jigs
from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.engine.world import Stored, World
from nodepool_ocb.jigs.ssh import attributes
from nodepool_ocb.model.boot import Publication, Publisher
from nodepool_ocb.model.networks import Network
from nodepool_ocb.model.records import Create, Delete, Json, Node, NodeRole, Set, State
from nodepool_ocb.provisioning import boot, publishing
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.virtual.network import VirtualNetwork
from tests.catalogue.test_shipped_barclamps import IMPORTED, seen

FQDN: Final = "a1.example.com"
ADDRESS: Final = "10.1.0.2"
SERVER: Final = f"http://{ADDRESS}:8480"
TOP: Final = "/srv/nodepool-ocb"
NETWORK: Final = Network(
    subnet="10.1.0.0/24", router="10.1.0.1", ranges={"dhcp": "10.1.0.100-10.1.0.139"}, slices={FQDN: 1}
)
_SSH: Final = Path(jigs.__file__).parent / "ssh"
_RUN_SECONDS: Final = 60.0


class AdminNode:
    """The scripts run as root, with a /var/lib and a /srv of their own; ``world`` has the records, and gets those of each run."""

    def __init__(self, network: VirtualNetwork, host: Namespace, folder: Path) -> None:
        self.network, self.host, self.folder = network, host, folder
        self.output = ""
        self.world = World()
        self.world.put(Stored(NETWORK, 0), "admin")
        self.world.put_node(FQDN, Node(alive=True, admin=True), 1)
        for role in ("provisioner-server", *boot.PUBLISHING):
            self.world.put_noderole(FQDN, role, NodeRole(state=State.ACTIVE, since=1.0))
        for name in ("read_attribute", "write_attribute"):
            command = folder / "bin" / name
            command.parent.mkdir(exist_ok=True)
            command.write_bytes((_SSH / f"{name}.sh").read_bytes())
            command.chmod(0o755)

    def server(self) -> int:
        """Run provisioner-server; the exit code."""
        return self.run("provisioner-server")[0]

    def publish(self, role: str = boot.DHCP) -> int:
        """Run a role of databases with the documents that are due, and take over its records; the exit code."""
        name = f"{role}@{FQDN}"
        text = publishing.material(self.world, name)["provisioner"]["documents"]
        code, returned = self.run(role, {"provisioner/documents": text})
        for change in publishing.records(self.world, name, returned, 9.0) if code == 0 else ():
            self._apply(change)
        return code

    def run(self, role: str, values: Mapping[str, Json] = {}) -> tuple[int, dict[str, Json]]:
        """The exit code of a role's script, and the attributes that it gave back; its words are in ``output``."""
        sent = seen(role)
        for place, value in values.items():
            sent = blobs.write(sent, place, value)
        (self.folder / "run.tree").write_bytes(attributes.tree(sent))
        written = self.folder / "run.written"
        written.unlink(missing_ok=True)
        (self.folder / "script").write_text(IMPORTED.roles[role].script or "")
        program = self.host.start(
            *("env", f"PATH={self.folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"OCB_RUN={self.folder}/run"),
            *(f"OCB_LIBRARY={_SSH}/library.sh", f"OCB_NODE={FQDN}", f"OCB_ROLE={role}", "sh", f"{self.folder}/script"),
            log="script.log",
            deadline_seconds=_RUN_SECONDS,
        )
        code = program.wait(_RUN_SECONDS)
        self.output = program.said
        return code, attributes.apply({}, written.read_bytes() if written.exists() else b"")

    def read(self, path: str) -> str:
        """A file below the directory of the server."""
        return self.host.run("cat", f"{TOP}/{path}")

    def files(self) -> dict[str, str]:
        """Path → time of the last change, of all files of nodes."""
        found = self.host.run(
            "sh", "-c", f"cd {TOP} && find hosts.d boots.d names.d http/boot -type f -printf '%p %T@\\n'"
        )
        return dict(line.rsplit(" ", 1) for line in found.splitlines())

    def _apply(self, change: Any) -> None:
        parts = change.path.split("/")[3:]
        if isinstance(change, Delete):
            self.world.drop(Publication if len(parts) == 2 else Publisher, *parts)
        elif isinstance(change, Create | Set):
            self.world.put(Stored(change.data, 0), *parts)


@contextlib.contextmanager
def admin_node(folder: Path) -> Iterator[AdminNode]:
    """An admin node with provisioner-server done, on a network of its own."""
    with VirtualNetwork(folder) as network, Namespace(folder, "admin") as host:
        network.attach(host, f"{ADDRESS}/24")
        host.run("mount", "-t", "tmpfs", "tmpfs", "/var/lib")
        host.run("sh", "-c", "mkdir -p /srv && mount -t tmpfs tmpfs /srv")
        host.run("sh", "-c", "umask 077; mkdir -p /var/lib/nodepool-ocb/runs")  # as the runner of orders makes it
        host.run("sh", "-c", "[ ! -d /run/systemd ] || mount -t tmpfs tmpfs /run/systemd")
        made = AdminNode(network, host, folder)
        assert made.server() == 0, made.output
        yield made


#: Asks for an address as a machine does, and prints the offer as JSON: address, bootfile and all options by number.
_DISCOVER: Final = """\
import json, socket, struct, sys, time
mac, options = bytes.fromhex(sys.argv[1].replace(":", "")), bytes.fromhex(sys.argv[2])
asked = struct.pack("!4B L 2H 16x 6s 10x 192x L", 1, 1, 6, 0, 7, 0, 0x8000, mac, 0x63825363)
asked += bytes([53, 1, 1, 55, 6, 1, 3, 6, 15, 66, 67]) + options + b"\\xff"
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
s.bind(("0.0.0.0", 68))
end = time.monotonic() + float(sys.argv[3])
answers, most = [], int(sys.argv[4])
while len(answers) < most and time.monotonic() < end:
    s.sendto(asked.ljust(300, b"\\0"), ("255.255.255.255", 67))
    s.settimeout(1.0)
    try:
        data = s.recv(4096)
    except TimeoutError:
        continue
    if data[28:34] != mac:
        continue
    at, found = 240, {}
    while at < len(data) and data[at] != 255:
        if data[at]:
            found[data[at]] = data[at + 2 : at + 2 + data[at + 1]].decode("latin-1")
            at += 2 + data[at + 1]
        else:
            at += 1
    file = found.get(67) or data[108:236].rstrip(b"\\0").decode()
    by = [socket.inet_ntoa(each) for each in (data[20:24], found.get(54, "0000").encode("latin-1"))]
    answer = {"address": socket.inet_ntoa(data[16:20]), "file": file.rstrip(chr(0)), "server": by[0], "by": by[1]}
    answer["router"] = socket.inet_ntoa(found[3].encode("latin-1")[:4]) if 3 in found else ""
    if answer not in answers:
        answers.append(answer)
print(json.dumps(answers))
"""


def offer(host: Namespace, mac: str, *options: bytes, seconds: float = 15.0) -> dict[str, str]:
    """The first offer of DHCP for a machine with this MAC and these options; empty without one."""
    found = offers(host, mac, *options, seconds=seconds, most=1)
    return {key: found[0][key] for key in ("address", "file", "server")} if found else {}


def offers(host: Namespace, mac: str, *options: bytes, seconds: float = 15.0, most: int = 2) -> list[dict[str, str]]:
    """The different offers, at most this number: address, file, server of the file, ``by`` (the server of DHCP), router."""
    words = [sys.executable, "-c", _DISCOVER, mac, b"".join(options).hex(), str(seconds), str(most)]
    found: list[dict[str, str]] = json.loads(host.run(*words, timeout_seconds=seconds + 30.0))
    return found


IPXE: Final = bytes([77, 4]) + b"iPXE"
HTTP: Final = bytes([60, 10]) + b"HTTPClient"


def architecture(number: int) -> bytes:
    """The option of firmware with this architecture."""
    return bytes([93, 2, 0, number])

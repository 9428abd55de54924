"""A stranger on the network, at a real server of the API and real nginx: no secret, no other node, no installation stopped.

It has the join token, which each machine on the network can read, and the token of a machine of its own that was adopted.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from nodepool_ocb.api.routes import ROUTES
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths
from nodepool_ocb.model.installation import BootToken, InstallStep
from nodepool_ocb.store import subtree
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.virtual.namespaces import Namespace
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.joining import JoiningMachine
from tests.api.served import ServedApi
from tests.api.test_api_installations import MAC, SUM, Installers
from tests.fixtures.chroots import fresh
from tests.provisioning.adminnode import SERVER, TOP, admin_node
from tests.provisioning.test_servers import MISSING

long = pytest.mark.long
FLOOD: Final = 10_000
ADDRESSES, THREADS = 40, 4  # of the stranger
#: The operations whose fields are judged for each credential; all others are refused before.
OPEN: Final = {
    "join": {"registration/create", "registration/poll"},
    "own": {"installation/report", "node/alive", "node/going-down", "node/inventory"},
}
#: Written by requests that change nothing that is theirs: when a token was used, and who asked.
PASSING: Final = ("/ocb/journal", "/ocb/calls", "/ocb/daemons", "/ocb/registrations")


class Besieged:
    """A node that is being installed, a machine that waits, and a stranger with all that the network gives it."""

    def __init__(self, api: ServedApi, session: Session) -> None:
        self.api, self.session = api, session
        self.installers = Installers(api, session)
        self.victim, self.boot = self.installers.machine()
        self.join = api.direct.token("network", "register")
        self.waiting = JoiningMachine(api, api.direct.token("site", "register"), serial="WAITS")
        assert self.waiting.register().status_code == 200
        words = ["name=stranger-{n}.example.com", "when=serial:STRANGE"]
        assert api.ask("PATCH", "/v1/adoption-rules/strange", {"assignments": words}).status_code == 200
        stranger = JoiningMachine(api, self.join, serial="STRANGE")
        self.own_node = stranger.register().json()["answer"]["node"]
        self.own = stranger.poll()["token"]

    def secrets(self) -> tuple[str, ...]:
        """The texts that no answer to a stranger may have."""
        return (self.boot, self.boot.rpartition("_")[2], self.waiting.secret, self.api.token)

    def standing(self) -> Mapping[str, Any]:
        """All records that are not the stranger's, without the times of uses."""
        found = {}
        for znode in subtree.subtree(self.session, "/ocb"):
            if znode.path.startswith((*PASSING, paths.node(self.own_node))):
                continue
            document = msgspec.json.decode(znode.data) if znode.data else None
            if isinstance(document, dict):
                document = {key: value for key, value in document.items() if key not in ("used", "tx")}
            found[znode.path] = document
        return found


@pytest.fixture(scope="module")
def besieged(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('strangers')}")
    api = ServedApi(settings, tmp_path_factory.mktemp("strangers"))
    with Session(settings) as session:
        try:
            yield Besieged(api, session)
        finally:
            api.close()


def filled(path: str, node: str) -> str:
    """The path with the victim in the place of each name."""
    names = {"node": node, "noderole": f"os@{node}", "mac": MAC, "deployment": "system", "role": "os"}
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: names.get(found[1], "x"), path)


@long
@pytest.mark.parametrize("credential", ["join", "own"])
def test_no_route_gives_a_stranger_a_secret_or_changes_another_node(besieged: Besieged, credential: str) -> None:
    token = besieged.join if credential == "join" else besieged.own
    before, opened = besieged.standing(), []
    for route in ROUTES:
        for path in filter(None, (route.path, route.one)):
            body = None if route.method == "GET" else {"name": besieged.victim, "mac": MAC, "nodes": [besieged.victim]}
            answer = besieged.api.ask(route.method, filled(path, besieged.victim), body, token, If_Match="*")
            assert not any(secret in answer.text for secret in besieged.secrets()), path
            if answer.status_code not in (403, 404):
                opened.append(route.operation)
                assert answer.status_code in (409, 422), path
    assert {*opened} <= OPEN[credential], "another operation judged the request further than its right"
    assert besieged.standing() == before


@long
def test_a_stranger_without_a_token_gets_nothing(besieged: Besieged) -> None:
    before = besieged.standing()
    asked = (
        ("GET", f"/v1/nodes/{besieged.victim}"),
        ("POST", f"/v1/nodes/{besieged.victim}/installation/identity"),
        ("POST", f"/v1/registrations/{besieged.waiting.mac}/poll"),
        ("GET", "/v1/tokens"),
    )
    for token, (method, path) in itertools.product(("x", "ocb_00000000002a_" + "A" * 43), asked):
        answer = besieged.api.ask(method, path, {"secret": "0" * 64}, token)
        assert answer.status_code == 401, path
        assert not any(secret in answer.text for secret in besieged.secrets()), path
    assert besieged.standing() == before


@long
def test_the_token_of_a_boot_and_of_a_machine_open_nothing_for_a_stranger_who_replays_them_elsewhere(
    besieged: Besieged,
) -> None:
    """A replay at its own node is a second use, which fails that installation by name: tests/api/test_api_installations.py."""
    other, boot = besieged.installers.machine()
    before = besieged.standing()
    assert besieged.installers.identify(besieged.victim, boot).status_code == 404
    own = besieged.installers.identify(other, boot).json()["answer"]["token"]
    for path in ("installation", "facts"):
        assert besieged.api.ask("GET", f"/v1/nodes/{besieged.victim}/{path}", token=own).status_code == 404
    assert besieged.installers.report(besieged.victim, own, step="failed", reason="stranger").status_code == 404
    after = besieged.standing()
    changed = {path for path in before if after.get(path) != before[path]}
    assert all(f"/{other}" in path for path in changed), changed


@long
def test_ten_thousand_machines_stop_no_installation_and_take_no_place_of_another_token(besieged: Besieged) -> None:
    before, began = besieged.standing(), time.monotonic()
    numbers = iter(range(FLOOD))

    def flood(number_of_thread: int) -> Counter[int]:
        """Registrations from several addresses in turn, until all are made."""
        codes: Counter[int] = Counter()
        host, port = besieged.api.address.removeprefix("http://").split(":")
        addresses = [f"127.2.{number_of_thread}.{number + 1}" for number in range(ADDRESSES // THREADS)]
        connections = [HTTPConnection(host, int(port), timeout=60.0, source_address=(each, 0)) for each in addresses]
        for number, connection in zip(numbers, itertools.cycle(connections), strict=False):
            mac = f"52:55:00:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
            body = msgspec.json.encode({"macs": [mac], "inventory": {"serial": "FLOOD"}})
            connection.request("POST", "/v1/registrations", body, {"Authorization": f"Bearer {besieged.join}"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert not any(secret in text for secret in besieged.secrets())
            codes[answer.status] += 1
        for connection in connections:
            connection.close()
        return codes

    with ThreadPoolExecutor(THREADS) as threads:
        under_way = [threads.submit(flood, number) for number in range(THREADS)]
        identity = besieged.installers.identify(besieged.victim, besieged.boot)
        assert identity.status_code == 200, "an installer gets its order meanwhile"
        own = identity.json()["answer"]["token"]
        assert besieged.installers.report(besieged.victim, own, step="written").status_code == 200
        assert besieged.waiting.poll()["node"] is None
        codes: Counter[int] = sum((each.result() for each in under_way), Counter())
    print(f"{FLOOD} registrations in {time.monotonic() - began:.0f} s: {codes}")
    assert set(codes) == {200, 429}
    assert sum(codes.values()) == FLOOD
    found = besieged.session.children(paths.REGISTRATIONS) or ()
    assert codes[200] <= 256 + THREADS, "the most of one token, and one more for each other request at that moment"
    assert len(found) <= 256 + THREADS + 10
    late = JoiningMachine(besieged.api, besieged.waiting._token)
    assert late.register().status_code == 200, "another token has places of its own"
    verified = besieged.installers.report(besieged.victim, own, step="verified", checksum=SUM)
    assert verified.status_code == 202, "it is taken; the leave to restart comes later"
    assert besieged.installers.record(besieged.victim).step is InstallStep.VERIFIED
    after = besieged.standing()
    changed = {path for path in before if after.get(path) != before[path]}
    assert all(f"/{besieged.victim}" in path for path in changed), changed
    assert {
        path for path in after if path not in before and "/tokens/" not in path and "/registrations" not in path
    } == set()


@long
@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
def test_nginx_gives_a_stranger_no_script_token_or_image_list_of_another_node(
    besieged: Besieged, tmp_path: Path
) -> None:
    victim, boot = besieged.installers.machine()
    with admin_node(tmp_path) as admin, Namespace(tmp_path, "client") as client:
        admin.network.attach(client, "10.1.0.9/24")
        found = load_world(besieged.session)
        view = found.nodes[victim]
        assert view.record is not None
        admin.world.put_node(victim, view.record, 1)
        installation = besieged.installers.record(victim)
        nonce = "5f" * 16
        admin.world.put(Stored(msgspec.structs.replace(installation, nonce=nonce), 0), victim)
        admin.world.put(Stored(BootToken(text=boot), 0), victim)
        admin.world.put_noderole(victim, "os", view.noderoles["os"].record)
        assert admin.publish() == 0, admin.output
        assert boot in admin.host.run("cat", f"{TOP}/http/boot/{nonce}.ipxe"), "the script of the boot has the token"
        mac = MAC.replace(":", "-")
        wrong = [
            f"boot/{mac}.ipxe",
            "boot/",
            "boot",
            f"boot/{'0' * 32}.ipxe",
            f"boot/{victim}.ipxe",
            "",
            "images/",
            "images/x/",
        ]
        wrong += [
            f"opts.d/{victim}",
            f"hosts.d/{victim}",
            "../opts.d",
            "..%2fopts.d",
            "boot/..%2f..%2fopts.d/" + victim,
        ]
        wrong += [
            "log/access.log",
            "../log/access.log",
            "%2e%2e/log/access.log",
            "run/nginx.pid",
            "boot/*.ipxe",
            "boot/%00",
        ]
        for path in wrong:
            said = client.run("curl", "-s", "--path-as-is", "-m", "20", "-w", " %{http_code}", f"{SERVER}/{path}")
            assert said.rsplit(" ", 1)[1] in ("400", "403", "404"), path
            assert boot not in said, path
            assert nonce not in said, path
        for method in ("PUT", "DELETE", "POST", "MOVE", "PROPFIND"):
            said = client.run(
                *(
                    "curl",
                    "-s",
                    "-m",
                    "20",
                    "-X",
                    method,
                    "-d",
                    "x",
                    "-w",
                    " %{http_code}",
                    f"{SERVER}/boot/{nonce}.ipxe",
                )
            )
            assert said.rsplit(" ", 1)[1] == "405", method
            assert boot not in said
        site = client.run("curl", "-s", "-m", "20", f"{SERVER}/site.cpio")
        assert boot not in site
        assert besieged.api.token not in site

"""How a node is created, as seed 000 tells it, with curl against a real server.

The headings are the steps of the seed. The new node is unavailable by request, since new nodes are available here (decision 046).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.store import clusters
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import Server
from tests.api.served import ServedApi
from tests.fixtures.chroots import fresh

ADMIN_DOMAIN: Final = "example.com"
NODE, ADMIN = "n1.example.com", "admin.example.com"
ROLES: Final = """\
barclamp: {name: crowbar, version: 1}
roles:
  - name: crowbar-admin-node
    jig: noop
    flags: [bootstrap]
  - name: provisioner-dhcp-database
    jig: noop
    flags: [implicit]
    attribs:
      - {name: dhcp-mac, map: dhcp/mac, default: '', schema: {type: str}}
  - name: crowbar-managed-node
    jig: noop
    requires: [provisioner-dhcp-database]
    attribs:
      - {name: managed-zone, map: managed/zone, default: UTC, schema: {type: str}}
"""


class Answer(NamedTuple):
    """An answer as curl gives it."""

    status: int
    body: Any
    etag: str


Curl = Callable[..., Answer]


@pytest.fixture(scope="module")
def curl(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curl]:
    """``curl("PUT", PATH, BODY, version=ETAG)`` at a server of a cluster with an admin domain."""
    settings = ZooKeeperSettings(hosts=f"{zookeeper.hosts}{fresh('seed-000')}")
    with Session(settings) as session:
        clusters.bootstrap(session, admin_domain=ADMIN_DOMAIN)
    folder = tmp_path_factory.mktemp("api")
    (folder / "roles.yaml").write_text(ROLES)
    words = ["--zookeeper", settings.hosts, "barclamp", "import", str(folder / "roles.yaml")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    served = ServedApi(settings, folder)

    def asked(method: str, path: str, body: Any = None, version: str | None = None) -> Answer:
        words = ["curl", "--silent", "--show-error", "--max-time", "30", "--include", "-X", method]
        words += ["-H", f"Authorization: Bearer {served.token}"]
        words += [] if body is None else ["-d", json.dumps(body)]
        words += [] if version is None else ["-H", f"If-Match: {version}"]
        done = subprocess.run([*words, served.address + path], capture_output=True, text=True, timeout=40, check=True)
        head, _, text = done.stdout.replace("\r", "").partition("\n\n")
        headers = dict(line.partition(": ")[::2] for line in head.lower().splitlines()[1:])
        return Answer(int(head.split()[1]), json.loads(text), headers.get("etag", "*"))

    yield asked
    served.close()


def states(curl: Curl, node: str) -> dict[str, str]:
    return {row["noderole"]: row["state"] for row in curl("GET", f"/v1/nodes/{node}").body["answer"]["noderoles"]}


def test_a_node_is_created_step_by_step(curl: Curl) -> None:
    # 1. An API request comes in with the requested name of the new node, and a flag that says whether it is an admin node.
    wanted = {"name": NODE, "node": {"admin": False, "available": False}}
    assert curl("POST", "/v1/nodes", wanted).status == 200

    # 2. The name is checked: it is a valid FQDN in the administrative DNS domain, and it is unique; else the request fails.
    for name, status in ((NODE, 409), ("n1.example.org", 422), ("n2", 422), ("n_1.example.com", 422), ("", 422)):
        refused = curl("POST", "/v1/nodes", {"name": name, "node": {}})
        assert (refused.status, curl("GET", f"/v1/nodes/{name}").status == 200) == (status, name in (NODE, "")), name
    # The new node is not alive or available, and has no roles bound to it.
    found = curl("GET", f"/v1/nodes/{NODE}").body["answer"]
    assert (found["alive"], found["available"], found["admin"], found["noderoles"]) == (False, False, False, [])

    # 3. (optional) API calls hint which MAC address is used for DHCP, and which address the node gets from the admin network.
    hints = ["hints.admin-mac=52:54:00:12:34:56", "hints.admin-v4addr=192.0.2.7/24"]
    version = curl("GET", f"/v1/nodes/{NODE}").etag
    assert curl("PATCH", f"/v1/nodes/{NODE}", {"assignments": hints}, version).status == 200
    assert curl("PATCH", f"/v1/nodes/{NODE}", {"assignments": ["hints.admin-mac=52:54"]}, "*").status == 422
    assert curl("GET", f"/v1/nodes/{NODE}").body["answer"]["hints"]["admin-v4addr"] == "192.0.2.7/24"

    # 4. API calls bind crowbar-managed-node, which pulls in all roles that are needed to discover the node.
    version = curl("GET", f"/v1/nodes/{NODE}").etag
    assert curl("POST", f"/v1/nodes/{NODE}/bind", {"roles": ["crowbar-managed-node"]}, version).status == 200
    dhcp, managed = f"provisioner-dhcp-database@{NODE}", f"crowbar-managed-node@{NODE}"
    assert states(curl, NODE) == {dhcp: "PROPOSED", managed: "PROPOSED"}

    # 5. (optional) API calls modify the default values of the freshly bound noderoles.
    version = curl("GET", f"/v1/noderoles/{managed}").etag
    assert curl("PATCH", f"/v1/noderoles/{managed}", {"assignments": ['managed/zone="CET"']}, version).status == 200
    attributes = curl("GET", f"/v1/noderoles/{managed}/attributes").body["answer"]
    assert "CET" in json.dumps(attributes)

    # 6. The node is committed via the node API, which commits all the noderoles bound to the node.
    version = curl("GET", f"/v1/nodes/{NODE}").etag
    assert curl("POST", f"/v1/nodes/{NODE}/commit", {}, version).status == 202
    assert states(curl, NODE) == {dhcp: "TODO", managed: "BLOCKED"}

    # 7. The node is marked as alive by the node API. After that, the annealer takes over.
    assert curl("POST", f"/v1/nodes/{NODE}/available", {}, "*").status == 200
    assert curl("POST", f"/v1/nodes/{NODE}/alive", {}, "*").status == 200
    found = curl("GET", f"/v1/nodes/{NODE}").body["answer"]
    assert (found["alive"], found["available"]) == (True, True)
    explained = curl("GET", f"/v1/noderoles/{dhcp}/explain").body
    assert "annealer" in json.dumps(explained), explained


def test_the_initial_admin_node_follows_the_same_process(curl: Curl) -> None:
    assert curl("POST", "/v1/nodes", {"name": ADMIN, "node": {"admin": True}}).status == 200
    assert states(curl, ADMIN) == {f"crowbar-admin-node@{ADMIN}": "PROPOSED"}
    assert curl("POST", f"/v1/nodes/{ADMIN}/commit", {}, curl("GET", f"/v1/nodes/{ADMIN}").etag).status == 202
    assert states(curl, ADMIN) == {f"crowbar-admin-node@{ADMIN}": "TODO"}

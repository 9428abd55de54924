"""A cloud with servers: Nova and Neutron beside the images of ``glance``, as far as openstacksdk uses them.

A server is in BUILD for ``boot_seconds``, and is gone ``delete_seconds`` after its deletion. The quota is enforced; another one
can be reported. Faults are those of ``glance``.
"""

from __future__ import annotations

import ipaddress
import json
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from nodepool_ocb.testing.glance import PROJECT, CloudAnswer, Glance

SERVERS_PAGE: Final = 3
FLAVORS: Final = {"small": (1, 512), "large": (4, 4096)}  # name → cores, MiB
NETWORKS: Final = {"private": False, "public": True}  # name → whether floating addresses come from it


class Nova(Glance):
    """``servers`` has the servers, ``floating`` the floating addresses, by id."""

    services: Mapping[str, str] = {
        "identity": "identity",
        "image": "image",
        "compute": "compute/v2.1",
        "network": "network",
    }

    def __init__(self) -> None:
        super().__init__()
        self.servers: dict[str, dict[str, Any]] = {}
        self.floating: dict[str, dict[str, Any]] = {}
        self.networks = dict(NETWORKS)
        self.quota = {"instances": 100, "cores": 400, "ram": 400_000}
        self.reported: dict[str, int] | None = None  # a false quota
        self.boot_seconds = 0.0
        self.delete_seconds = 0.0
        self.broken = ""  # the fault of each server that is made from now on
        self.addresses = [str(each) for each in ipaddress.ip_network("127.77.0.0/24").hosts()]
        self._addresses_given = 0

    def further(self, method: str, steps: list[str], query: Mapping[str, str], body: bytes) -> CloudAnswer | None:
        self._pass_time()
        value = json.loads(body) if body else {}
        match method, steps:
            case "GET", ["compute", "v2.1"]:
                link = [{"rel": "self", "href": f"{self.url}/compute/v2.1/"}]
                version = {"id": "v2.1", "status": "CURRENT", "version": "2.90", "min_version": "2.1", "links": link}
                return CloudAnswer(200, {"version": version})
            case "GET", ["network"]:
                link = [{"rel": "self", "href": f"{self.url}/network/v2.0/"}]
                return CloudAnswer(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": link}]})
            case _, ["compute", "v2.1", *rest]:
                return self._compute(method, rest, query, value)
            case _, ["network", "v2.0", *rest]:
                return self._network(method, rest, query, value)
        return None

    # -- Nova --

    def _compute(
        self, method: str, steps: list[str], query: Mapping[str, str], value: Mapping[str, Any]
    ) -> CloudAnswer | None:
        match method, steps:
            case "GET", ["flavors", *_]:
                found = [{"id": name, "name": name, **_flavor(name), "links": []} for name in FLAVORS]
                return CloudAnswer(200, {"flavors": found})
            case "GET", ["limits"]:
                return CloudAnswer(200, {"limits": {"absolute": self._limits(), "rate": []}})
            case "GET", ["servers", "detail"]:
                return self._page(query)
            case "POST", ["servers"]:
                return self._boot(value["server"])
            case "GET", ["servers", identity]:
                if identity in self.servers:
                    return CloudAnswer(200, {"server": _shown(self.servers[identity])})
                return _missing("Instance", identity)
            case "DELETE", ["servers", identity]:
                if identity not in self.servers:
                    return _missing("Instance", identity)
                self.servers[identity]["_gone"] = time.monotonic() + self.delete_seconds
                self._pass_time()
                return CloudAnswer(204)
        return None

    def _boot(self, asked: Mapping[str, Any]) -> CloudAnswer:
        flavor = str(asked.get("flavorRef"))
        if flavor not in FLAVORS:
            return _fault(400, "badRequest", f"Flavor {flavor} could not be found.")
        image = asked.get("imageRef") or next(
            (each.get("uuid") for each in asked.get("block_device_mapping_v2") or ()), None
        )
        if image not in self.images:
            return _fault(400, "badRequest", f"Can not find requested image {image}")
        for key, used in self._used(flavor).items():
            if used > self.quota[key]:
                return _fault(403, "forbidden", f"Quota exceeded for {key}: Requested 1, but already used all of it")
        identity = str(uuid.uuid4())
        address = self.addresses[self._addresses_given % len(self.addresses)]
        self._addresses_given += 1
        now = time.monotonic()
        self.servers[identity] = {
            "id": identity,
            "name": asked["name"],
            "status": "BUILD",
            "metadata": dict(asked.get("metadata") or {}),
            "flavor": {"original_name": flavor, **_flavor(flavor)},
            "image": {"id": image} if asked.get("imageRef") else "",
            "addresses": {},
            "accessIPv4": "",
            "accessIPv6": "",
            "key_name": asked.get("key_name"),
            "hostId": "host-1",
            "OS-EXT-AZ:availability_zone": asked.get("availability_zone") or "nova",
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "tenant_id": PROJECT,
            "links": [],
            "_asked": dict(asked),
            "_address": address,
            "_ready": now + self.boot_seconds,
            "_gone": None,
            "_broken": self.broken,
        }
        return CloudAnswer(202, {"server": {"id": identity, "links": [], "adminPass": "unused"}})

    def _pass_time(self) -> None:
        now = time.monotonic()
        for identity, server in list(self.servers.items()):
            if server["_gone"] is not None and now >= server["_gone"]:
                del self.servers[identity]
                for each in self.floating.values():
                    if each["port_id"] == f"port-{identity}":
                        each["port_id"] = None
            elif server["status"] == "BUILD" and now >= server["_ready"]:
                if server["_broken"]:
                    server |= {"status": "ERROR", "fault": {"code": 500, "message": server["_broken"]}}
                else:
                    server["status"] = "ACTIVE"
                    fixed = {"addr": server["_address"], "version": 4, "OS-EXT-IPS:type": "fixed"}
                    server["addresses"] = {"private": [fixed]}

    def _page(self, query: Mapping[str, str]) -> CloudAnswer:
        found = [*self.servers.values()]
        marker, limit = query.get("marker"), min(int(query.get("limit", SERVERS_PAGE)), SERVERS_PAGE)
        begin = 1 + next((at for at, each in enumerate(found) if each["id"] == marker), -1) if marker else 0
        page = found[begin : begin + limit]
        said: dict[str, Any] = {"servers": [_shown(each) for each in page]}
        if begin + limit < len(found):
            following = f"{self.url}/compute/v2.1/servers/detail?limit={limit}&marker={page[-1]['id']}"
            said["servers_links"] = [{"rel": "next", "href": following}]
        return CloudAnswer(200, said)

    def _used(self, further: str | None = None) -> dict[str, int]:
        flavors = [each["flavor"]["original_name"] for each in self.servers.values()] + ([further] if further else [])
        return {
            "instances": len(flavors),
            "cores": sum(FLAVORS[each][0] for each in flavors),
            "ram": sum(FLAVORS[each][1] for each in flavors),
        }

    def _limits(self) -> dict[str, int]:
        limits, used = self.reported or self.quota, self._used()
        return {
            "maxTotalInstances": limits["instances"],
            "maxTotalCores": limits["cores"],
            "maxTotalRAMSize": limits["ram"],
            "totalInstancesUsed": used["instances"],
            "totalCoresUsed": used["cores"],
            "totalRAMUsed": used["ram"],
        }

    # -- Neutron --

    def _network(
        self, method: str, steps: list[str], query: Mapping[str, str], value: Mapping[str, Any]
    ) -> CloudAnswer | None:
        match method, steps:
            case "GET", ["networks"]:
                found = [
                    {"id": f"net-{name}", "name": name, "router:external": outside}
                    for name, outside in self.networks.items()
                ]
                return CloudAnswer(200, {"networks": found})
            case "GET", ["ports"]:
                device = query.get("device_id")
                ports = [f"port-{each}" for each in self.servers if device in (None, each)]
                return CloudAnswer(200, {"ports": [{"id": each, "device_id": device} for each in ports]})
            case "GET", ["floatingips"]:
                kept = [each for each in self.floating.values() if query.get("port_id") in (None, each["port_id"])]
                return CloudAnswer(200, {"floatingips": kept})
            case "POST", ["floatingips"]:
                return self._give(value["floatingip"])
            case "DELETE", ["floatingips", identity]:
                self._take(identity)
                return CloudAnswer(204)
        return None

    def _give(self, asked: Mapping[str, Any]) -> CloudAnswer:
        identity = str(uuid.uuid4())
        text = f"198.51.100.{len(self.floating) + 1}"
        self.floating[identity] = {
            "id": identity,
            "floating_ip_address": text,
            "port_id": asked["port_id"],
            "description": asked.get("description", ""),
        }
        server = self.servers[asked["port_id"].removeprefix("port-")]
        server["addresses"]["private"].append({"addr": text, "version": 4, "OS-EXT-IPS:type": "floating"})
        return CloudAnswer(201, {"floatingip": self.floating[identity]})

    def _take(self, identity: str) -> None:
        taken = self.floating.pop(identity, None)
        for server in self.servers.values() if taken else ():
            for network, listed in server["addresses"].items():
                kept = [each for each in listed if taken and each["addr"] != taken["floating_ip_address"]]
                server["addresses"][network] = kept


def _flavor(name: str) -> dict[str, int]:
    return {"vcpus": FLAVORS[name][0], "ram": FLAVORS[name][1], "disk": 10}


def _shown(server: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in server.items() if not key.startswith("_")}


def _missing(thing: str, identity: str) -> CloudAnswer:
    return _fault(404, "itemNotFound", f"{thing} {identity} could not be found.")


def _fault(status: int, kind: str, message: str) -> CloudAnswer:
    return CloudAnswer(status, {kind: {"code": status, "message": message}})

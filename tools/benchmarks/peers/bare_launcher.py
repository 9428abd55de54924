"""The floor of a hand-out: a launcher without rules. It locks a request, checks the machine, commits the records, and unlocks.

It writes the same records as a launcher, with kazoo: the lock, pending, the node's allocation, fulfilled. It asks the machine
over a kept connection, as ours does. It knows the ready nodes from its start, and hands them out in turn.

In: one line {"hosts": ..., "machines": [[host, port], ...], "key": file}. Out: the line "ready". It ends when its input ends.
"""

import getpass
import json
import sys
import threading
from queue import SimpleQueue
from typing import Any

import paramiko
from kazoo.client import KazooClient

REQUESTS, LOCKS, NODES = "/nodepool/requests", "/nodepool/requests-lock", "/nodepool/nodes"


def main() -> None:
    order = json.loads(sys.stdin.readline())
    client = KazooClient(hosts=order["hosts"], timeout=20.0)
    client.start()
    launcher = BareLauncher(client, {host: connected(host, port, order["key"]) for host, port in order["machines"]})
    names: SimpleQueue[list[str] | None] = SimpleQueue()
    client.ChildrenWatch(REQUESTS, names.put)
    threading.Thread(target=end_with_input, args=(names,), daemon=True).start()
    print("ready", flush=True)
    while (listed := names.get()) is not None:
        launcher.serve(listed)
    client.stop()
    client.close()


def end_with_input(names: SimpleQueue[list[str] | None]) -> None:
    sys.stdin.read()
    names.put(None)


def connected(host: str, port: int, key: str) -> paramiko.Transport:
    """A connection that is logged in, and kept."""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(host, port, getpass.getuser(), key_filename=key, allow_agent=False, look_for_keys=False)
    transport = client.get_transport()
    assert transport is not None
    return transport


class BareLauncher:
    """Serves each request with the next node."""

    def __init__(self, client: KazooClient, links: dict[str, paramiko.Transport]) -> None:
        self._client, self._links = client, links
        self._nodes = sorted(client.get_children(NODES))
        self._served: set[str] = set()

    def serve(self, names: list[str]) -> None:
        """Serve the requests that are new."""
        for name in sorted(set(names) - self._served):
            self._served.add(name)
            with self._client.Lock(f"{LOCKS}/{name}", "bare"):
                self._fulfil(name, self._nodes.pop(0))

    def _fulfil(self, name: str, node: str) -> None:
        client, request, machine = self._client, f"{REQUESTS}/{name}", f"{NODES}/{node}"
        record, version = self._read(request)
        record["state"] = "pending"
        client.set(request, encoded(record), version)
        offered, at = self._read(machine)
        self._links[offered["interface_ip"]].global_request("keepalive@openssh.com", wait=True)
        offered["allocated_to"] = name
        self._commit((request, version + 1, None), (machine, at, offered))
        record |= {"state": "fulfilled", "nodes": [node]}
        self._commit((machine, at + 1, None), (request, version + 1, record))

    def _read(self, path: str) -> tuple[dict[str, Any], int]:
        data, stat = self._client.get(path)
        return json.loads(data), stat.version

    def _commit(self, check: tuple[str, int, None], change: tuple[str, int, dict[str, Any]]) -> None:
        transaction = self._client.transaction()
        transaction.check(check[0], check[1])
        transaction.set_data(change[0], encoded(change[2]), change[1])
        for answer in transaction.commit():
            if isinstance(answer, Exception):
                raise answer


def encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()


if __name__ == "__main__":
    main()

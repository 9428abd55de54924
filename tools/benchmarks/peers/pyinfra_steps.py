"""pyinfra: dependent shell steps on many machines, as its own command would run them, connecting included.

In: {"machines": [{"host", "port"}], "user", "key", "steps": [commands], "parallel", "layers": [{name: value}], "secrets":
{name: value}, "uses": [names]}. Each layer is a group with data; secrets are data in plain text, since it has no store for them.
Out: {"seconds", "steps": [[begin, end] of each step, for each machine], "cpu_seconds", "resident_bytes", "threads", "sockets"}.
"""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import gevent.monkey

gevent.monkey.patch_all()

from pyinfra.api import Config, Inventory, State  # noqa: E402
from pyinfra.api.connect import connect_all, disconnect_all  # noqa: E402
from pyinfra.api.operation import add_op  # noqa: E402
from pyinfra.api.operations import run_ops  # noqa: E402
from pyinfra.api.state import BaseStateCallback  # noqa: E402
from pyinfra.context import ctx_state  # noqa: E402
from pyinfra.operations import server  # noqa: E402


class Times(BaseStateCallback):  # type: ignore[misc]
    """Notes when each operation began and ended on each machine."""

    def __init__(self, zero: float) -> None:
        self._zero = zero
        self._began: dict[str, float] = {}
        self.steps: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)

    def operation_host_start(self, state: Any, host: Any, op_hash: str) -> None:  # noqa: ARG002
        self._began[host.name] = time.perf_counter() - self._zero

    def operation_host_success(self, state: Any, host: Any, op_hash: str, retry_count: int = 0) -> None:  # noqa: ARG002
        self.steps[host.name].append((self._began[host.name], time.perf_counter() - self._zero))


def main() -> None:
    order = json.load(sys.stdin)
    began, cpu = time.perf_counter(), time.process_time()
    inventory = inventory_of(order)
    state = State(inventory, Config(PARALLEL=order["parallel"], CONNECT_TIMEOUT=30))
    state.add_callback_handler(times := Times(began))
    with ctx_state.use(state):
        connect_all(state)
        data = next(iter(inventory)).data  # the same for all
        used = "".join(f" {getattr(data, name)}" for name in order["uses"])
        for number, step in enumerate(order["steps"]):
            add_op(state, server.shell, name=f"step {number}", commands=[step + used])
        run_ops(state)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        failed = [host.name for host in inventory if len(times.steps[host.name]) != len(order["steps"])]
        size = measured()
        disconnect_all(state)
    if failed:
        sys.exit(f"pyinfra: {len(failed)} of {len(inventory)} machines failed")
    steps = [times.steps[host.name] for host in inventory]
    print(json.dumps({"seconds": took, "steps": steps, "cpu_seconds": cpu, **size}))


def inventory_of(order: dict[str, Any]) -> Inventory:
    """The machines, each in a group for each layer."""
    machines = [
        (f"m{number}", {"ssh_hostname": machine["host"], "ssh_port": machine["port"]})
        for number, machine in enumerate(order["machines"])
    ]
    login = {
        "ssh_user": order["user"],
        "ssh_key": order["key"],
        "ssh_strict_host_key_checking": "off",
        "ssh_known_hosts_file": "/dev/null",
        "ssh_config_file": "/dev/null",
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
    }
    names = [name for name, _ in machines]
    groups = {f"layer_{number}": (names, values) for number, values in enumerate(order["layers"])}
    return Inventory((machines, login | order["secrets"]), **groups)


def measured() -> dict[str, int]:
    """The memory, threads and sockets of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    (threads,) = (
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Threads:")
    )
    sockets = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            sockets += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:  # the descriptor of the listing itself
            continue
    return {"resident_bytes": pages * os.sysconf("SC_PAGE_SIZE"), "threads": int(threads), "sockets": sockets}


if __name__ == "__main__":
    main()

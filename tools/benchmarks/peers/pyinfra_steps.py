"""pyinfra: dependent shell steps on many machines, as its own command would run them, connecting included.

In: {"machines": [{"host", "port"}], "user", "key", "steps": [commands], "parallel"}.
Out: {"seconds": ..., "cpu_seconds": of this process}.
"""

import json
import sys
import time

import gevent.monkey

gevent.monkey.patch_all()

from pyinfra.api import Config, Inventory, State  # noqa: E402
from pyinfra.api.connect import connect_all, disconnect_all  # noqa: E402
from pyinfra.api.operation import add_op  # noqa: E402
from pyinfra.api.operations import run_ops  # noqa: E402
from pyinfra.context import ctx_state  # noqa: E402
from pyinfra.operations import server  # noqa: E402


def main() -> None:
    order = json.load(sys.stdin)
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
    began, cpu = time.perf_counter(), time.process_time()
    inventory = Inventory((machines, login))
    state = State(inventory, Config(PARALLEL=order["parallel"], CONNECT_TIMEOUT=30))
    with ctx_state.use(state):
        connect_all(state)
        for number, step in enumerate(order["steps"]):
            add_op(state, server.shell, name=f"step {number}", commands=[step])
        run_ops(state)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        failed = len(machines) - sum(state.results[host].success_ops == len(order["steps"]) for host in inventory)
        disconnect_all(state)
    if failed:
        sys.exit(f"pyinfra: {failed} of {len(machines)} machines failed")
    print(json.dumps({"seconds": took, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()

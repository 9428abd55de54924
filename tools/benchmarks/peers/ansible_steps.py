"""Ansible: dependent ``command`` tasks on many machines with forks 10 and pipelining, no facts gathered.

In: {"machines": [{"host", "port"}], "user", "key", "steps": [commands]}. Out: {"seconds": ...}.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = """\
[defaults]
forks = 10
host_key_checking = False
gathering = explicit
interpreter_python = {python}
[ssh_connection]
pipelining = True
ssh_args = {ssh}
control_path_dir = {directory}/c
"""


SSH = "-F /dev/null -o ControlMaster=auto -o ControlPersist=60s -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"


def main() -> None:
    order = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="ocb-") as name:
        directory = Path(name)
        (directory / "ansible.cfg").write_text(SETTINGS.format(directory=name, python=sys.executable, ssh=SSH))
        (directory / "hosts").write_text(
            "".join(
                f"m{number} ansible_host={machine['host']} ansible_port={machine['port']} ansible_user={order['user']}"
                f" ansible_ssh_private_key_file={order['key']}\n"
                for number, machine in enumerate(order["machines"])
            )
        )
        tasks = [{"name": step, "ansible.builtin.command": step} for step in order["steps"]]
        (directory / "play.yaml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        began = time.perf_counter()
        done = subprocess.run(
            ["ansible-playbook", "-i", directory / "hosts", directory / "play.yaml"],
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
                "ANSIBLE_HOME": name,
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"ansible-playbook ended with {done.returncode}:\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}")
    print(json.dumps({"seconds": took}))


if __name__ == "__main__":
    main()

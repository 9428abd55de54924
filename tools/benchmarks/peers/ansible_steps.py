"""Ansible: dependent ``command`` tasks on many machines with pipelining, no facts gathered.

In: {"machines": [{"host", "port"}], "user", "key", "steps": [commands], "parallel"}. Out: {"seconds": ...}, from the begin
of the play: loading Ansible and the playbook is not counted, as it is not for the others.
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
forks = {forks}
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
        (directory / "ansible.cfg").write_text(
            SETTINGS.format(directory=name, python=sys.executable, ssh=SSH, forks=order["parallel"])
        )
        (directory / "hosts").write_text(
            "".join(
                f"m{number} ansible_host={machine['host']} ansible_port={machine['port']} ansible_user={order['user']}"
                f" ansible_ssh_private_key_file={order['key']}\n"
                for number, machine in enumerate(order["machines"])
            )
        )
        tasks = [{"name": step, "ansible.builtin.command": step} for step in order["steps"]]
        (directory / "play.yaml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        playing = subprocess.Popen(
            ["ansible-playbook", "-i", directory / "hosts", directory / "play.yaml"],
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
                "ANSIBLE_HOME": name,
                "LC_ALL": "C.UTF-8",
            },
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        began, said = time.perf_counter(), []
        for line in playing.stdout:
            if line.startswith("PLAY ["):
                began = time.perf_counter()
            said.append(line)
        code = playing.wait()
        took = time.perf_counter() - began
    if code != 0:
        sys.exit(f"ansible-playbook ended with {code}:\n{''.join(said)[-3000:]}")
    print(json.dumps({"seconds": took}))


if __name__ == "__main__":
    main()

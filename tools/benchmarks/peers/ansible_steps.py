"""Ansible: dependent tasks on many machines with pipelining, no facts gathered.

In: {"machines": [{"host", "port"}], "user", "key", "steps": [commands], "parallel", "module": "command" or "shell", "layers":
[{name: value}], "secrets": {name: value}, "uses": [names]}. Each layer is a group inside the one before it; secrets are in a file
of variables that ansible-vault has encrypted.

Out: {"seconds", "steps": [[begin, end] of each step, for each machine]}, from the begin of the play. Loading Ansible and the
playbook is not counted, as it is not for the others.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SETTINGS = """\
[defaults]
forks = {forks}
host_key_checking = False
gathering = explicit
interpreter_python = {python}
callback_plugins = {callbacks}
callbacks_enabled = ocb_times
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
        callbacks = Path(__file__).with_name("ansible_callbacks")
        settings = SETTINGS.format(
            directory=name, python=sys.executable, ssh=SSH, forks=order["parallel"], callbacks=callbacks
        )
        (directory / "ansible.cfg").write_text(settings)
        (directory / "hosts.yaml").write_text(json.dumps(inventory_of(order)))
        (directory / "play.yaml").write_text(json.dumps([play_of(order)]))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(directory / "ansible.cfg"),
            "ANSIBLE_HOME": name,
            "LC_ALL": "C.UTF-8",
            "OCB_TIMES": str(directory / "times"),
        }
        play(order, directory, environment)
        times = json.loads((directory / "times").read_text())
    steps = [times["steps"][f"m{number}"] for number in range(len(order["machines"]))]
    print(json.dumps({"seconds": times["seconds"], "steps": steps}))


def play(order: dict[str, Any], directory: Path, environment: dict[str, str]) -> None:
    """Encrypt the secrets, and run the play."""
    vault: list[str | Path] = []
    if order["secrets"]:
        (directory / "password").write_text("of the bench\n")
        (directory / "secrets.yaml").write_text(json.dumps(order["secrets"]))
        vault = ["--vault-password-file", directory / "password"]
        run(["ansible-vault", "encrypt", *vault, directory / "secrets.yaml"], environment)
    run(["ansible-playbook", *vault, "-i", directory / "hosts.yaml", directory / "play.yaml"], environment)


def run(command: list[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}")


def inventory_of(order: dict[str, Any]) -> dict[str, Any]:
    """The machines in the innermost of the groups."""
    hosts = {
        f"m{number}": {
            "ansible_host": machine["host"],
            "ansible_port": machine["port"],
            "ansible_user": order["user"],
            "ansible_ssh_private_key_file": order["key"],
        }
        for number, machine in enumerate(order["machines"])
    }
    inner: dict[str, Any] = {"hosts": hosts}
    for number, values in reversed(list(enumerate(order["layers"]))):
        inner = {"children": {f"layer_{number}": {"vars": values, **inner}}}
    return {"all": inner}


def play_of(order: dict[str, Any]) -> dict[str, Any]:
    used = "".join(f" {{{{ {name} }}}}" for name in order["uses"])
    module, secret = f"ansible.builtin.{order['module']}", bool(order["secrets"])
    tasks = [
        {"name": f"step {number}", module: step + used, "no_log": secret} for number, step in enumerate(order["steps"])
    ]
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
    return play | {"vars_files": ["secrets.yaml"]} if secret else play


if __name__ == "__main__":
    main()

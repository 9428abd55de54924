"""A firmware of UEFI: the entries of its boot menu, which a program in the place of efibootmgr changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.environment.agents import FileMachine

_PROGRAM = """\
import json, sys
file, *words = sys.argv[1:]
state = json.load(open(file))
entries, order = state["entries"], state["order"]
state["asked"].append(words)
given = dict(zip(words, [*words[1:], ""]))
if given.get("--bootorder"):
    state["order"] = given["--bootorder"].split(",")
elif "--delete-bootnum" in words:
    del entries[given["--bootnum"]]
    state["order"] = [each for each in order if each != given["--bootnum"]]
elif "--create-only" in words:
    free = next(f"{number:04X}" for number in range(65536) if f"{number:04X}" not in entries)
    entries[free] = f"{given['--label']}\\tHD({given['--part']},GPT)/File({given['--loader']}) on {given['--disk']}"
json.dump(state, open(file, "w"))
if state["fails"] and state["fails"] in words:
    sys.exit("Could not prepare Boot variable: No space left on device")
if state["current"]:
    print(f"BootCurrent: {state['current']}")
print("Timeout: 0 seconds")
print(f"BootOrder: {','.join(state['order'])}")
for number, name in sorted(entries.items()):
    print(f"Boot{number}* {name}")
"""


class EfiFirmware:
    """The firmware of a machine; ``fails``: an option of efibootmgr that it refuses."""

    def __init__(
        self, machine: FileMachine, entries: Mapping[str, str], order: str, current: str, fails: str = ""
    ) -> None:
        self._file = machine.folder / "firmware.json"
        self._file.write_text(
            json.dumps({"entries": entries, "order": order.split(), "current": current, "fails": fails, "asked": []})
        )
        (machine.folder / "efibootmgr.py").write_text(_PROGRAM)
        machine.program("efibootmgr", f'exec {sys.executable} {machine.folder}/efibootmgr.py {self._file} "$@"')
        (machine.folder / "sys/firmware/efi/efivars").mkdir(parents=True)
        machine.program("mountpoint", "exit 0")

    def esp(self, machine: FileMachine, *partitions: str) -> None:
        """The partitions for UEFI, such as sda2; the rest of each disk has no such one."""
        lines = []
        for name in partitions:
            folder = machine.folder / "sys/class/block" / name
            folder.mkdir(parents=True)
            (folder / "partition").write_text(f"{name[-1]}\n")
            lines.append(
                f"*{name[:-1]}) echo /dev/{name[:-1]}; echo /dev/{name} C12A7328-F81F-11D2-BA4B-00A0C93EC93B ;;"
            )
        machine.program("lsblk", f"case $* in {' '.join(lines)} esac")

    def __getitem__(self, key: str) -> Any:
        return json.loads(Path(self._file).read_text())[key]

"""Jig task-reboot: done when the machine has booted, and accepts our login again.

The script records the id of the present boot and lets the machine reboot soon after. It has ended by then. The jig
waits for another boot id than the recorded one. It asks over new connections, for at most the order's time.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import threading
import time
from typing import Final

from msgspec.structs import replace

from nodepool_ocb.jigs.jig import Detached, Failed, Order, Outcome, Succeeded, Unknown, Unreachable
from nodepool_ocb.jigs.script import ScriptJig
from nodepool_ocb.jigs.ssh.asking import ask
from nodepool_ocb.jigs.ssh.faults import OwnFault
from nodepool_ocb.jigs.ssh.link import Broken
from nodepool_ocb.jigs.tasks.task import OrderedTask, TaskJig, concluded, program, task
from nodepool_ocb.model.records import Json

POLL_SECONDS: Final = 1.0
#: Prints the boot, and the complaints of the program reboot, from the file that is the last argument.
ASK: Final = (
    "exec sh -c '"
    "read -r boot </proc/sys/kernel/random/boot_id; IFS= read -r stat </proc/1/stat; set -- ${stat##*) }; "
    'printf "\\nBOOT %s\\n" "$boot.${20}"; [ ! -s "$0" ] || cat "$0"'
    "'"
)
_ANSWER: Final = re.compile(r"^BOOT ([0-9a-f-]{36}\.[0-9]+)\n(.*)", re.MULTILINE | re.DOTALL)


class RebootJig(TaskJig):
    name = "task-reboot"

    def text(self, task: OrderedTask) -> str:
        if task.noop:
            return "echo 'would boot this machine again'\n"
        return program("reboot.sh", once=hashlib.sha256(task.once.encode()).hexdigest()[:32])

    def run(self, order: Order, stop: threading.Event) -> Outcome:
        deadline = time.monotonic() + order.timeout_seconds
        outcome = self._noted(order, stop, deadline)
        if not isinstance(outcome, Succeeded) or task(order).noop:
            return concluded(order, outcome)
        before, said = _written(outcome.attributes)
        return self._awaited(order, concluded(order, outcome), before, said, stop, deadline)

    def _noted(self, order: Order, stop: threading.Event, deadline: float) -> Outcome:
        """The outcome of the script. It may be that the machine boots before that is heard."""
        begun = order.previous_epoch is not None
        while True:
            outcome = ScriptJig.run(self, order, stop)
            if not isinstance(outcome, Unreachable):
                return outcome
            begun = begun or outcome.begun
            if not begun or time.monotonic() > deadline:
                return replace(outcome, begun=begun)
            if stop.wait(POLL_SECONDS):
                return Detached()

    def _awaited(
        self, order: Order, done: Outcome, before: str, said: str, stop: threading.Event, deadline: float
    ) -> Outcome:
        while not stop.is_set():
            try:
                answer = self._boot(order, said)
            except OwnFault as own:
                if time.monotonic() > deadline:
                    return Unknown(str(own), reaching=True)  # whether it has booted is not known
                stop.wait(POLL_SECONDS)
                continue
            boot, complaint = ("", answer.why) if isinstance(answer, Unreachable) else answer
            if boot and boot != before:
                return done
            if boot and complaint:
                return Failed(f"this machine does not boot again: {complaint}", 1)
            if time.monotonic() > deadline:
                why = complaint or "it is up, and has not gone down"
                return Failed(f"it has not booted again within {order.timeout_seconds:g} s: {why}")
            stop.wait(POLL_SECONDS)
        return Detached()

    def _boot(self, order: Order, said: str) -> tuple[str, str] | Unreachable:
        """Which boot it is now, and the complaint of the program reboot; raises OwnFault."""
        link = self._pool.take(order.node, order.record)
        if isinstance(link, Unreachable):
            return link
        try:
            command = f"{ASK} {shlex.quote(said)}"
            found = _ANSWER.search(ask(link, command, self._pool.settings.connect_timeout_seconds))
        except Broken as broken:
            self._pool.discard(link)
            return broken.unreachable
        finally:
            self._pool.give_back(link)
        return (
            (found[1], " ".join(found[2].split())) if found else Unreachable("run", "it does not say which boot it is")
        )


def _written(attributes: dict[str, Json]) -> tuple[str, str]:
    """The values that the script gave back: the recorded boot id, and the file of complaints."""
    written = attributes.get("task")
    held = written if isinstance(written, dict) else {}
    return str(held.get("booted_from", "")), str(held.get("said", ""))

"""The demo: takes six machines from nothing to ready, breaks one, mends it; every step is a command that a user types.

Exit status 0 means that every noderole is ACTIVE at the end. What it runs on is stage.py's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from nodepool_ocb.cli.output import COLOURS

ROOT: Final = Path(__file__).parent.parent
FOLDER: Final = Path(tempfile.gettempdir()) / f"nodepool-ocb-demo-{os.getuid()}"
COMMAND: Final = Path(sys.executable).with_name("nodepool-ocb")
PATIENCE_SECONDS: Final = 120.0
DEPLOYMENT: Final = "shop"
MEMBER: Final = "quorum-member@n2.example.com"
CLIENT: Final = "quorum-client@n5.example.com"

States = Mapping[str, str]  # noderole → state


def main() -> int:
    """Play, or stop what an earlier play left running; gives the exit status."""
    asked = _arguments()
    if asked.stop:
        return stop()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with stage(asked.keep) as built:
            return Play(built, asked.fast, asked.keep).all()
    except (Failed, KeyboardInterrupt) as end:
        print(f"\ntools/demo: {str(end) or 'interrupted'}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description="The whole system on one machine.")
    parser.add_argument("--fast", action="store_true", help="make no pauses")
    parser.add_argument("--keep", action="store_true", help="leave it running, to be looked at")
    parser.add_argument("--stop", action="store_true", help="stop what --keep left running")
    return parser.parse_args()


class Failed(Exception):
    """The demo cannot go on; the message says why."""


# -- the stage --


@contextmanager
def stage(keep: bool) -> Iterator[dict[str, Any]]:
    """Everything that the demo needs, running; taken down at the end, unless it is to be kept and all went well."""
    try:
        FOLDER.mkdir(mode=0o700)
    except FileExistsError:
        raise Failed(f"{FOLDER} exists: a demo is running, or was killed; end it with tools/demo --stop") from None
    with (FOLDER / "stage.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "tools/stage.py"), str(FOLDER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # control-C is for us: we take it down in order
        )
    assert process.stdin
    assert process.stdout
    try:
        built = json.loads(process.stdout.readline() or '{"failed": "the stage fell"}')
        if "failed" in built:
            raise Failed(built["failed"])
        yield built
        if keep:
            process.stdin.write("keep\n")
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        if not keep or sys.exc_info()[0]:
            process.wait()


def stop() -> int:
    """End a stage that was kept, and wait until nothing of it is left."""
    try:
        pid = int((FOLDER / "pid").read_text())
    except FileNotFoundError:
        print(f"no demo is running: there is no {FOLDER}")
        return 0
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while FOLDER.exists():
        if time.monotonic() > deadline or not Path(f"/proc/{pid}").exists():
            print(f"the demo's process {pid} is gone; remove {FOLDER} and look for what it left", file=sys.stderr)
            return 1
        time.sleep(0.05)
    print("stopped; nothing is left")
    return 0


# -- the play --


class Play:
    """The acts, in order."""

    def __init__(self, built: Mapping[str, Any], fast: bool, keep: bool) -> None:
        self._built, self._fast, self._keep = built, fast, keep
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
        self._machines = {f"n{number}.example.com": each for number, each in enumerate(built["machines"], 1)}
        self._environment = os.environ | {"NODEPOOL_OCB_CONFIG": built["config"]}

    def all(self) -> int:
        """Every act; gives the exit status."""
        for act in (self.open, self.plan, self.converge, self.fail, self.mend, self.close):
            act()
        return 0 if all(state == "ACTIVE" for state in self._states().values()) else 1

    def open(self) -> None:
        self._title("The stage")
        self._say(
            f"A private ZooKeeper ({self._built['zookeeper']}), two annealers, and {len(self._machines)} machines:"
            " sshd processes on 127.0.0.0/8, each with a directory that it takes for its root."
        )
        self._run("daemon list")
        self._run(f"barclamp import {ROOT / 'etc/barclamps'}")

    def plan(self) -> None:
        self._title("A deployment, its nodes, and what they are to be")
        self._run(f"deployment create {DEPLOYMENT}")
        for number, (fqdn, machine) in enumerate(self._machines.items()):
            where = f"--address {machine['address']} --user {machine['user']} --deployment {DEPLOYMENT}"
            tag = "quorum" if number < 3 else "web"
            self._run(f"node create {fqdn} {where} --tag {tag} --rack r{1 + number % 2}", quiet=number > 0)
            root = json.dumps(machine["root"])
            self._run(f"noderole set machine-base@{fqdn} {shlex.quote('ocb/root=' + root)}", quiet=number > 0)
        self._say("New nodes got the roles that every node has. Now some that are special; one binds what it needs.")
        n1, n2, n3, n4, n5, n6 = self._machines
        self._run(f"node bind {n1} quorum-member --dry-run", expect=10)
        for fqdn in (n1, n2, n3):
            self._run(f"node bind {fqdn} quorum-member", quiet=True)
        for fqdn in (n4, n5, n6):
            self._run(f"node bind {fqdn} quorum-client", quiet=True)
        for role, fqdn in (("ntp-server", n1), ("logging-server", n1), ("timezone", n4), ("sysctl", n5)):
            self._run(f"node bind {fqdn} {role}", quiet=True)
        self._run(f"deployment set {DEPLOYMENT} motd " + shlex.quote('motd_text="Welcome to the shop"'))

    def converge(self) -> None:
        self._title("From nothing to ready")
        self._say("Nothing has happened on any machine so far. A commit lets the annealers have it:")
        self._run(f"deployment commit {DEPLOYMENT}", quiet=True)
        self._watch(lambda states: all(state == "ACTIVE" for state in states.values()))

    def fail(self) -> None:
        self._title("Something breaks")
        obstacle = self._obstacle
        self._say(f"Somebody leaves a file where {MEMBER} wants a directory, and the role runs again:")
        self._type(f"rm -r {obstacle}; touch {obstacle}")
        for each in obstacle.iterdir():
            each.unlink()
        obstacle.rmdir()
        obstacle.touch()
        self._run(f"noderole refresh {MEMBER}")
        self._watch(lambda states: states[MEMBER] == "ERROR" and states[CLIENT] == "BLOCKED")
        self._say("An error blocks what depends on it, on whichever machine, and nothing else. Why, and what to do:")
        self._run(f"noderole explain {CLIENT}")
        self._run(f"noderole log {MEMBER}")

    def mend(self) -> None:
        self._title("Mended")
        self._type(f"rm {self._obstacle}")
        self._obstacle.unlink()
        self._run(f"noderole retry {MEMBER}")
        self._watch(lambda states: all(state == "ACTIVE" for state in states.values()))
        self._run("status")

    def close(self) -> None:
        self._title("Look for yourself")
        hosts = self._built["zookeeper"]
        self._say("All state is JSON in ZooKeeper. With zk-shell (pip install zk-shell), while the demo is kept:")
        self._type(f"zk-shell {hosts} --readonly --run-once 'tree /ocb'")
        self._type(f"zk-shell {hosts} --readonly --run-once 'get /ocb/nodes/n1.example.com/noderoles/ntp-client'")
        if not self._keep:
            self._say("tools/demo --keep leaves everything running. Now it is taken down.")
            return
        self._say("It keeps running. To use it:")
        self._type(f"export NODEPOOL_OCB_CONFIG={self._built['config']} PATH={COMMAND.parent}:$PATH")
        self._say("To end it:")
        self._type("tools/demo --stop")

    # -- what acts are made of --

    @property
    def _obstacle(self) -> Path:
        return Path(self._machines[MEMBER.partition("@")[2]]["root"], "var/lib/nodepool-ocb/quorum")

    def _title(self, text: str) -> None:
        self._pause(1.5)
        self._console.print(f"\n[bold]━━ {text} ━━[/bold]\n")

    def _say(self, text: str) -> None:
        self._console.print(escape(text) + "\n")
        self._pause(1.0)

    def _type(self, line: str) -> None:
        """A line as a user types it."""
        self._console.print(f"[bold cyan]$[/bold cyan] [bold]{escape(line)}[/bold]", soft_wrap=True)
        self._pause(0.5)

    def _pause(self, seconds: float) -> None:
        if not self._fast:
            time.sleep(seconds)

    def _run(self, words: str, expect: int = 0, quiet: bool = False) -> None:
        """Show a command, run it, show its answer; raises Failed where its exit status is another."""
        self._type(f"nodepool-ocb {words}")
        done = subprocess.run(
            [COMMAND, *shlex.split(words)], env=self._environment, capture_output=quiet, text=True, check=False
        )
        if done.returncode != expect:
            raise Failed(f"that exited with {done.returncode}: {done.stderr or ''}")
        if not quiet:
            self._console.print()

    def _ask(self, *words: str) -> Any:
        """A command's answer as JSON; it is not shown."""
        done = subprocess.run(
            [COMMAND, *words, "-o", "json"], env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Failed(f"nodepool-ocb {' '.join(words)} exited with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def _states(self) -> States:
        return {each["noderole"]: each["state"] for each in self._ask("noderole", "list")}

    def _watch(self, reached: Callable[[States], bool]) -> None:
        """Show all noderoles as they move, until they are as they should be; Failed where that takes too long."""
        self._type("nodepool-ocb noderole list --watch")
        states, deadline = dict(self._states()), time.monotonic() + PATIENCE_SECONDS
        with self._changes() as changes, Live(picture(states), console=self._console, refresh_per_second=8) as live:
            while not reached(states):
                changed = next(changes, None)
                if changed is None or time.monotonic() > deadline:
                    raise Failed("it did not come to that; nodepool-ocb status would tell more")
                states[changed["noderole"]] = changed["state"]
                live.update(picture(states))
        self._console.print()

    @contextmanager
    def _changes(self) -> Iterator[Iterator[dict[str, Any]]]:
        """What ``noderole list --watch`` says, as it says it."""
        with subprocess.Popen(
            [COMMAND, "noderole", "list", "--watch"], env=self._environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            try:
                yield map(json.loads, process.stdout)
            finally:
                process.terminate()


def picture(states: States) -> Table:
    """Roles down, nodes across, a state in each place."""
    nodes = sorted({name.partition("@")[2] for name in states})
    roles = sorted({name.partition("@")[0] for name in states})
    counts = Counter(states.values())
    summary = ", ".join(f"{counts[state]} {state}" for state in COLOURS if counts[state])
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=summary)
    table.add_column("role", no_wrap=True)
    for node in nodes:
        table.add_column(node.partition(".")[0], min_width=10)
    for role in roles:
        table.add_row(role, *(_word(states.get(f"{role}@{node}")) for node in nodes))
    return table


def _word(state: str | None) -> str:
    return f"[{COLOURS[state]}]{state}[/]" if state else ""


if __name__ == "__main__":
    sys.exit(main())

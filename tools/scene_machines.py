"""The first scene: six machines from nothing to ready; something breaks, is explained, and mended; then a value changes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from play import PATIENCE_SECONDS, ROOT, Play

DEPLOYMENT: Final = "shop"
MEMBER: Final = "quorum-member@n2.example.com"
COUNT: Final = 6  # of the stage's machines
CLIENT: Final = "quorum-client@n5.example.com"


class MachinesScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._machines = {
            f"n{number}.example.com": each for number, each in enumerate(play.built["machines"][:COUNT], 1)
        }
        self.acts = (self.open, self.plan, self.converge, self.fail, self.mend, self.change)

    def open(self) -> None:
        self._play.title("The stage")
        self._play.say(
            f"A private ZooKeeper ({self._play.built['zookeeper']}), two annealers, and {len(self._play.built['machines'])}"
            f" machines: sshd processes on 127.0.0.0/8, each with a directory as its root. This scene has {COUNT} of them."
        )
        self._play.say(
            "The cluster exists since before the daemons started. The first command of a new cluster makes it:"
        )
        self._play.run("init")
        self._play.run("daemon list")
        self._play.run(f"barclamp import {ROOT / 'etc/barclamps'}")

    def plan(self) -> None:
        self._play.title("A deployment, its nodes and their roles")
        self._play.run(f"deployment create {DEPLOYMENT}")
        for number, (fqdn, machine) in enumerate(self._machines.items()):
            where = f"--address {machine['address']} --user {machine['user']} --deployment {DEPLOYMENT}"
            tag = "quorum" if number < 3 else "web"
            self._play.run(f"node create {fqdn} {where} --tag {tag} --rack r{1 + number % 2}", quiet=number > 0)
            root = json.dumps(machine["root"])
            self._play.run(f"noderole set machine-base@{fqdn} {shlex.quote('ocb/root=' + root)}", quiet=number > 0)
        self._play.say(
            "New nodes have the roles of every node. Now come special roles; each binds the roles that it requires."
        )
        n1, n2, n3, n4, n5, n6 = self._machines
        self._play.run(f"node bind {n1} quorum-member --dry-run", expect=10)
        for fqdn in (n1, n2, n3):
            self._play.run(f"node bind {fqdn} quorum-member", quiet=True)
        for fqdn in (n4, n5, n6):
            self._play.run(f"node bind {fqdn} quorum-client", quiet=True)
        for role, fqdn in (("ntp-server", n1), ("logging-server", n1), ("timezone", n4), ("sysctl", n5)):
            self._play.run(f"node bind {fqdn} {role}", quiet=True)
        self._play.run(f"deployment set {DEPLOYMENT} motd " + shlex.quote('motd_text="Welcome to the shop"'))

    def converge(self) -> None:
        self._play.title("From nothing to ready")
        self._play.say("No machine is changed so far. A commit lets the annealers begin:")
        self._play.run(f"deployment commit {DEPLOYMENT}", quiet=True)
        self._play.watch(lambda states: all(state == "ACTIVE" for state in states.values()))

    def fail(self) -> None:
        self._play.title("Something breaks")
        obstacle = self._obstacle
        self._play.say(f"A file now stands in the place of a directory of {MEMBER}, and the role runs again:")
        self._play.type(f"rm -r {obstacle}; touch {obstacle}")
        for each in obstacle.iterdir():
            each.unlink()
        obstacle.rmdir()
        obstacle.touch()
        self._play.run(f"noderole refresh {MEMBER}")
        self._play.watch(lambda states: states[MEMBER] == "ERROR" and states[CLIENT] == "BLOCKED")
        self._play.say(
            "An error blocks the noderoles that depend on it, on every machine, and no others. The cause and the next step:"
        )
        self._play.run(f"noderole explain {CLIENT}")
        self._play.run(f"noderole log {MEMBER}")

    def mend(self) -> None:
        self._play.title("Mended")
        self._play.type(f"rm {self._obstacle}")
        self._obstacle.unlink()
        self._play.run(f"noderole retry {MEMBER}")
        self._play.watch(lambda states: all(state == "ACTIVE" for state in states.values()))

    def change(self) -> None:
        machine = next(iter(self._machines.values()))
        self._play.title("A change")
        self._play.say("An ACTIVE noderole does not run again by itself. A deployment is changed while it is PROPOSED:")
        self._play.run(f"deployment propose {DEPLOYMENT}", quiet=True)
        self._play.run(f"deployment set {DEPLOYMENT} motd " + shlex.quote('motd_text="The shop is open"'))
        self._play.say("A noderole is outdated if its inputs changed since its newest run; a commit runs it again:")
        self._play.run("noderole list --outdated --role motd")
        self._play.run(f"deployment commit {DEPLOYMENT} --wait --timeout {PATIENCE_SECONDS:.0f}", quiet=True)
        motd = Path(machine["root"], "etc/motd")
        self._play.type(f"cat {motd}")
        self._play.answer(motd.read_text().strip())
        self._play.run("status")

    @property
    def _obstacle(self) -> Path:
        return Path(self._machines[MEMBER.partition("@")[2]]["root"], "var/lib/nodepool-ocb/quorum")

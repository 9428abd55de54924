"""The second scene: a dozen machines in Airship's five groups, one after the other; one fails, is mended, and sent again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from play import PATIENCE_SECONDS, ROOT, Play
from scene_machines import COUNT

DEPLOYMENT: Final = "site"
STRATEGY: Final = ROOT / "tools/site/strategy.yaml"

#: name → rack and tag; those of Airship's example, on a dozen machines
NODES: Final = {
    "ntp01": ("rack03", "time"),
    **{f"control0{number}": ("rack03", "control") for number in (1, 2, 3)},
    **{f"compute0{number}": ("rack01", "compute") for number in (1, 2, 3, 4)},
    "compute05": ("rack02", "compute"),
    **{f"monitor0{number}": (f"rack0{number}", "monitoring") for number in (1, 2, 3)},
}
BROKEN: Final = "compute05"  # the only one of compute-nodes-2


class RolloutScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._machines = dict(zip(NODES, play.built["machines"][COUNT : COUNT + len(NODES)], strict=True))
        self.acts = (self.open, self.plan, self.roll_out, self.mend)

    def open(self) -> None:
        self._play.title("A rollout: groups of machines, one after the other")
        self._play.say(
            f"{len(NODES)} machines more, with racks and tags. Each gets the roles of every node, and a service of its own."
        )
        self._play.run(f"barclamp import {ROOT / 'tools/site/barclamp.yml'}", quiet=True)
        self._play.run(f"deployment create {DEPLOYMENT}", quiet=True)
        self._play.each(
            [
                f"node create {name}.example.com --address {machine['address']} --user {machine['user']}"
                f" --deployment {DEPLOYMENT} --tag {NODES[name][1]} --rack {NODES[name][0]}"
                for name, machine in self._machines.items()
            ]
        )
        self._play.say("Annealers may work in the deployment, but its noderoles stay PROPOSED for the rollout:")
        self._play.run(f"deployment commit {DEPLOYMENT} --no-noderoles")

    def plan(self) -> None:
        self._play.say("A DeploymentStrategy in the format of Airship states the order of the groups:")
        self._play.run(f"rollout plan {STRATEGY} --deployment {DEPLOYMENT}")

    def roll_out(self) -> None:
        obstacle = self._obstacle
        self._play.say(f"A file on {BROKEN} now stands in the place of a directory of its service:")
        obstacle.parent.mkdir(parents=True, exist_ok=True)
        self._play.type(f"touch {obstacle}")
        obstacle.touch()
        phase = "--phase prepare=crowbar-managed-node"
        self._play.say(
            "Each group is prepared and then deployed. One annealer drives the rollout; if it stops, another takes over."
        )
        self._play.run(f"rollout start {shlex.quote(str(STRATEGY))} --deployment {DEPLOYMENT} {phase}")
        self._play.run(f"noderole explain site-service@{BROKEN}.example.com")
        self._play.run(f"rollout wait {DEPLOYMENT} --timeout {PATIENCE_SECONDS:.0f}")
        self._play.say("A group that is not critical failed, so the rollout does not fail. The cause:")
        self._play.run(f"rollout show {DEPLOYMENT}")
        self._play.run(f"noderole log site-service@{BROKEN}.example.com")

    def mend(self) -> None:
        self._play.say(
            "The cause is mended. A retry sends the failed nodes again, and leaves the successful ones alone:"
        )
        self._play.type(f"rm {self._obstacle}")
        self._obstacle.unlink()
        self._play.run(f"rollout retry {DEPLOYMENT}")
        self._play.run(f"rollout wait {DEPLOYMENT} --timeout {PATIENCE_SECONDS:.0f}")

    @property
    def _obstacle(self) -> Path:
        return Path(self._machines[BROKEN]["root"], "srv/site")

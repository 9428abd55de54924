"""The third scene: Fuel's example of a task list on eight machines, in its order; then a part of it again."""

from __future__ import annotations

from typing import Final

from play import PATIENCE_SECONDS, ROOT, Play
from scene_machines import COUNT
from scene_rollout import NODES as BEFORE

DEPLOYMENT: Final = "fuel"
LIST: Final = ROOT / "tools/fuel/tasks.yaml"

#: uid → role; the lowest controller becomes the primary one
NODES: Final = {
    **dict.fromkeys((1, 2, 3, 4, 5), "controller"),
    6: "cinder",
    7: "network",
    8: "compute",
}
LISTED: Final = "1,4,2,3,5,6,7,8"  # as Fuel's example lists them


class TasksScene:
    """``acts`` are to be played in order."""

    def __init__(self, play: Play) -> None:
        self._play = play
        first = COUNT + len(BEFORE)
        self._machines = dict(zip(NODES, play.built["machines"][first : first + len(NODES)], strict=True))
        self.acts = (self.open, self.plan, self.run, self.part)

    def open(self) -> None:
        self._play.title("Task lists: Fuel's granular deployment")
        self._play.say(
            f"{len(NODES)} machines more. A node's tags are its roles; its label uid is the number that Fuel had."
        )
        self._play.run(f"deployment create {DEPLOYMENT}", quiet=True)
        self._play.each(
            [
                f"node create node-{uid}.example.com --address {machine['address']} --user {machine['user']}"
                f" --deployment {DEPLOYMENT} --tag {NODES[uid]} --label uid={uid}"
                for uid, machine in self._machines.items()
            ]
        )
        self._play.run(f"deployment commit {DEPLOYMENT} --no-noderoles")
        self._play.say(
            "The list is the example of Fuel's specification. It is checked, and stored for the release 6.1:"
        )
        self._play.run(f"tasks check {LIST}")
        self._play.run(f"tasks upload {LIST} --release 6.1")
        self._play.run(f"tasks upload --deployment {DEPLOYMENT} --base 6.1")

    def plan(self) -> None:
        self._play.say("Two controllers run at a time, in the order of --nodes; the first one is primary:")
        self._play.run(f"tasks run --deployment {DEPLOYMENT} --nodes {LISTED} --dry-run", expect=10)

    def run(self) -> None:
        self._play.say("An annealer drives the run, and all of them work on it; how far it is:")
        self._play.run(
            f"tasks run --deployment {DEPLOYMENT} --nodes {LISTED} --facts-file none --wait --timeout {PATIENCE_SECONDS:.0f}"
        )
        self._play.say("The history says when each task began on each node, and how it ended:")
        self._play.run(f"tasks history {DEPLOYMENT}")

    def part(self) -> None:
        self._play.say(
            "A part of the list: the tasks between two tasks, on two nodes. Other tasks keep their place in the order:"
        )
        part = f"--deployment {DEPLOYMENT} --nodes 7,8 --start setup_services --end deploy"
        self._play.run(f"tasks run {part} --dry-run", expect=10)
        self._play.run(f"tasks run {part} --facts-file none --wait --timeout {PATIENCE_SECONDS:.0f}")
        self._play.run(f"tasks runs {DEPLOYMENT}")

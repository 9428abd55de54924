"""The demo: machines become ready, alone and in groups; a task list runs in its order; images are built and uploaded;
a command runs on a leased machine.

Every step is a command that a user types.

Exit status 0 means that every scene came to its end. stage.py starts the servers; the scenes are in modules of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from play import COMMAND, PATIENCE_SECONDS, ROOT, Failed, Play
from scene_images import ImagesScene
from scene_leases import LeasesScene
from scene_machines import MachinesScene
from scene_metal import play_metal
from scene_rollout import RolloutScene
from scene_tasks import TasksScene

FOLDER: Final = Path(tempfile.gettempdir()) / f"nodepool-ocb-demo-{os.getuid()}"


def main() -> int:
    """Play, or stop the servers that an earlier play left running; returns the exit status."""
    asked = _arguments()
    if asked.stop:
        return stop()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if asked.metal:
            play_metal(FOLDER, asked.fast, asked.keep)
            return 0
        with stage(asked.keep) as built:
            perform(Play(built, asked.fast, asked.keep))
            return 0
    except (Failed, KeyboardInterrupt) as end:
        print(f"\ntools/demo: {str(end) or 'interrupted'}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description="The whole system on one machine.")
    parser.add_argument("--fast", action="store_true", help="make no pauses")
    parser.add_argument(
        "--metal", action="store_true", help="two virtual machines, from their power buttons to ACTIVE (root)"
    )
    parser.add_argument("--keep", action="store_true", help="leave it running, to be looked at")
    parser.add_argument("--stop", action="store_true", help="stop the stage that --keep left running")
    return parser.parse_args()


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
            print(
                f"the demo's process {pid} is gone; remove {FOLDER} and look for its leftover processes",
                file=sys.stderr,
            )
            return 1
        time.sleep(0.05)
    print("stopped; nothing is left")
    return 0


# -- the play --


def perform(play: Play) -> None:
    """Every scene, and where to look then. Raises Failed."""
    for scene in (MachinesScene(play), RolloutScene(play), TasksScene(play), ImagesScene(play), LeasesScene(play)):
        for act in scene.acts:
            act()
    close(play)


def close(play: Play) -> None:
    """Print the places that a visitor may look at."""
    play.title("Look for yourself")
    hosts = play.built["zookeeper"]
    play.say("All state is JSON in ZooKeeper. With zk-shell (pip install zk-shell), while the demo is kept:")
    play.type(f"zk-shell {hosts} --readonly --run-once 'tree /ocb'")
    play.type(f"zk-shell {hosts} --readonly --run-once 'get /ocb/nodes/n1.example.com/noderoles/ntp-client'")
    if not play.keep:
        play.say("tools/demo --keep leaves everything running. Now it is taken down.")
        return
    play.say(f"It keeps running. The page, with all that the scenes left behind: {play.built['page']}")
    for role in ("viewer", "operator"):
        token = play.ask("token", "create", f"guest-{role}", "--role", role)["token"]
        play.say(f"To sign in as {role}: {token}")
    play.say("To use it:")
    play.type(f"export NODEPOOL_OCB_CONFIG={play.built['config']} PATH={COMMAND.parent}:$PATH")
    play.say("To end it:")
    play.type("tools/demo --stop")


if __name__ == "__main__":
    sys.exit(main())

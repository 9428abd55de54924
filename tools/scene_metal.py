"""The demo of machines with power alone: two virtual machines go from their power buttons to ACTIVE roles.

Each machine has its console on the left, and on the right the words of ``explain``. All is real: dnsmasq, nginx, iPXE, the images
of the builder, and the annealer. The network is one of a namespace, and ends with the demo.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from play import COMMAND, Failed, Play
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nodepool_ocb.model.records import State
from nodepool_ocb.testing.virtual import metalimages, preparing
from nodepool_ocb.testing.virtual.machine import Firmware, VirtualMachine
from nodepool_ocb.testing.virtual.network import why_not
from nodepool_ocb.testing.virtual.site import MetalSite, Refused
from nodepool_ocb.testing.virtual.walking import Walker, build_of

FIRMWARE: Final = (Firmware.BIOS, Firmware.UEFI)  # of each machine
WAY_SECONDS: Final = 3600.0  # from power to ACTIVE on a slow host; minutes on a quiet one
IMAGE_SECONDS: Final = 2400.0
LOOK_SECONDS: Final = 2.0
LONGEST: Final = 70  # of a word of a command on the screen
LINES: Final = 14  # of a console, and of the words beside it
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f]")

Sections = Sequence[Mapping[str, Any]]


def play_metal(folder: Path, fast: bool, keep: bool) -> None:
    """The whole demo. Raises Failed."""
    fresh, images = _images()
    with _stage(folder, images) as site, ExitStack() as up:
        walkers = [
            up.enter_context(Walker(site, number, firmware=firmware))
            for number, firmware in enumerate(FIRMWARE, start=1)
        ]
        scene = MetalScene(Play({"config": str(site.config)}, fast, keep), site, walkers)
        try:
            scene.prepare(fresh if images == fresh else ())
            scene.switch_on()
            scene.watch()
            scene.look()
        except (Refused, AssertionError, RuntimeError) as error:
            raise Failed(str(error)) from None


def _images() -> tuple[Sections, Sections]:
    """The sections that build the images, and those to use: copies of kept files, if this host has them. Raises Failed."""
    missing = why_not("dnsmasq", "nginx", "cpio", "mmdebstrap")
    if missing is not None:
        raise Failed(missing)
    try:
        sections = metalimages.fresh()
    except LookupError as lacking:
        raise Failed(str(lacking)) from None
    return sections, metalimages.at_hand(sections)


@contextmanager
def _stage(folder: Path, images: Sections) -> Iterator[MetalSite]:
    """The site. All of it ends here, also after Ctrl-C, which is ignored from then on."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise Failed(f"{folder} exists: a demo is running, or was killed; end it with tools/demo --stop") from None
    with ExitStack() as up:
        up.callback(shutil.rmtree, folder, ignore_errors=True)
        (folder / "pid").write_text(f"{os.getpid()}\n")
        site = up.enter_context(MetalSite(folder, images))
        for number in (signal.SIGINT, signal.SIGTERM):
            up.callback(signal.signal, number, signal.SIG_IGN)
        yield site


class MetalScene:
    """Its acts: prepare, switch_on, watch, look."""

    def __init__(self, play: Play, site: MetalSite, walkers: Sequence[Walker]) -> None:
        self._play, self._site, self._walkers = play, site, walkers
        self._began = time.monotonic()

    def prepare(self, built: Sections) -> None:
        """A site without machines; ``built``: the images that the builder makes here, to be kept."""
        self._play.title("A site without machines")
        self._play.say(
            "An admin node with sshd, on a network of its own; ZooKeeper, an annealer, a builder and the API on this host."
        )
        token = self._site.ask("token", "create", "guest", "--role", "viewer")["token"]
        self._play.say(
            f"The page, at this host: {self._site.url}/ (its authority: {self._site.ca})\nTo sign in: {token}"
        )
        preparing.prepare(self._site, self._perform)
        if built:
            self._play.say(
                "The builder makes the environment and a small Debian. That takes minutes, once on this host:"
            )
        else:
            self._play.say(
                "The images were built on this host before. The builder copies them, and the admin node gets them:"
            )
        self._await_images()
        for section in built:
            metalimages.keep(section, build_of(self._site, section["name"]))
        self._play.run("image list")
        self._play.run("upload list")
        self._play.say("A rule makes a node of each machine that comes:")
        preparing.adopt_all(self._perform)

    def switch_on(self) -> None:
        """Press the power buttons."""
        self._play.title("Power")
        self._play.say(
            "Two machines with empty disks, one with BIOS and one with UEFI, which boot from the network first. Nothing"
            " else is known of them."
        )
        self._began = time.monotonic()
        for walker in self._walkers:
            walker.switch_on()

    def watch(self) -> None:
        """Show both machines until all their roles are ACTIVE; raises Failed if that takes too long, or one is in ERROR."""
        console, deadline = Console(), time.monotonic() + WAY_SECONDS
        shown: dict[int, str] = {}
        with Live(console=console, auto_refresh=False) as live:
            while True:
                seen = [_Seen(self._site, walker) for walker in self._walkers]
                if console.is_terminal:
                    live.update(Group(*(each.panel() for each in seen)), refresh=True)
                else:
                    self._print_changes(seen, shown)
                states = {state for each in seen for state in each.states or [State.TODO]}
                if states == {State.ACTIVE}:
                    break
                if State.ERROR in states or time.monotonic() > deadline:
                    raise Failed("a machine did not become ACTIVE; its words are above")
                time.sleep(LOOK_SECONDS)
        self._play.say(f"From power to ACTIVE in {self._elapsed()}.")

    def look(self) -> None:
        """The records afterwards."""
        self._play.title("ACTIVE")
        self._play.run("node list")
        self._play.run("noderole list")
        for walker in self._walkers:
            self._play.run(f"installation show {walker.fqdn}")
        if not self._play.keep:
            self._play.say("tools/demo --metal --keep leaves everything running. Now it is taken down.")
            return
        self._play.say("It keeps running until Ctrl-C, or tools/demo --stop in another terminal.")
        while True:
            time.sleep(1.0)

    def _perform(self, *words: str) -> None:
        """Show a command, without the whole of its long words, and run it. Raises Refused."""
        shown = [f"{word[:LONGEST]}..." if len(word) > LONGEST else word for word in words]
        self._play.type(f"nodepool-ocb {shlex.join(shown).replace(chr(10), ' ')}")
        self._site.ocb(*words)

    def _await_images(self) -> None:
        """Until the admin node has both; the newest line of each log on the screen. Raises AssertionError."""
        console, shown = Console(highlight=False), ""
        deadline = time.monotonic() + IMAGE_SECONDS
        with console.status("") as status:
            while not preparing.has_images(self._site):
                assert time.monotonic() < deadline, f"no images within {IMAGE_SECONDS:g} s:\n{self._site.said}"
                news = escape(_newest_lines(self._site.folder / "builder"))
                if console.is_terminal:
                    status.update(f"{self._elapsed()}  {news}")
                elif news != shown:
                    console.print(f"{self._elapsed()}  {news}", soft_wrap=True)
                shown = news
                time.sleep(LOOK_SECONDS)

    def _print_changes(self, seen: Sequence[_Seen], shown: dict[int, str]) -> None:
        """One line for each change, where the output is no terminal."""
        for number, each in enumerate(seen):
            if each.words != shown.get(number):
                shown[number] = each.words
                console = each.lines[-1] if each.lines else ""
                print(f"{self._elapsed()}  {each.title}: {each.words.strip()} | console: {console}", flush=True)

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes}:{seconds:02d}"


class _Seen:
    """One machine now: the end of its console, and the words about its first noderole that is not ACTIVE."""

    def __init__(self, site: MetalSite, walker: Walker) -> None:
        row = walker.registration
        fqdn = (row.node or "") if row is not None else ""
        self.states = list(site.states(fqdn).values()) if fqdn else []
        self.title = f"{walker.mac} {fqdn or '(unknown)'}"
        self.lines = _console(walker.machine)
        self.words = _words(site, fqdn) if fqdn else "no node has this MAC" + (": it has registered" if row else "")

    def panel(self) -> Panel:
        """For the screen."""
        row = Table.grid(expand=True)
        row.add_column(ratio=1)
        row.add_column(ratio=1)
        console = Panel(Text("\n".join(self.lines[-LINES:]), no_wrap=True), title="console", height=LINES + 2)
        row.add_row(console, Panel(Text(self.words), title="explain", height=LINES + 2))
        return Panel(row, title=self.title)


def _console(machine: VirtualMachine) -> list[str]:
    return [line for line in _CONTROL.sub("", machine.said[-8000:]).splitlines() if line.strip()]


def _words(site: MetalSite, fqdn: str) -> str:
    """The words about the installation, and after it about the first noderole that is not ACTIVE."""
    states = site.states(fqdn)
    waiting = [role for role in (preparing.INSTALL, *states) if states.get(role) not in (State.ACTIVE, None)]
    active = f"{sum(state is State.ACTIVE for state in states.values())} of {len(states)} ACTIVE"
    if not waiting:
        return active
    words = [str(COMMAND), "noderole", "explain", f"{waiting[0]}@{fqdn}"]
    environment = os.environ | {"NODEPOOL_OCB_CONFIG": str(site.config)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120.0)
    return f"{active}\n{done.stdout or done.stderr}"


def _newest_lines(folder: Path) -> str:
    """The newest line of the log of each build that runs, and of the builder."""
    logs = [*sorted((folder / "images" / "builds").glob("*.log")), folder / "log"]
    found = []
    for log in logs:
        lines = log.read_text(errors="replace")[-2000:].splitlines() if log.exists() else []
        if lines:
            found.append(f"{log.stem}: {_CONTROL.sub('', lines[-1]).strip()[:100]}")
    return " | ".join(found)

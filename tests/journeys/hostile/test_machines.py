"""Machines that lie, flood or die: what becomes of each is in a table, and nobody else notices.

To add one, add a line: a name, what it does, and what the record of its node or of its noderole must come to say.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from msgspec.structs import replace

from nodepool_ocb.errors import Stale
from nodepool_ocb.jigs.ssh import protocol
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Node, Role, Run, Set
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.machines import Farm
from nodepool_ocb.testing.zookeeper.server import Server
from tests.journeys.hostile import impostors
from tests.journeys.hostile.canaries import Canaries
from tests.journeys.hostile.impostors import BANNER, Impostor, Talk

SECONDS: Final = 120.0  # for all of them to have come to their end
MORE_BYTES: Final = 64 << 20
MORE_DESCRIPTORS: Final = 10
LINES: Final = 1500  # of both logs
LONGEST_REASON: Final = 6000  # characters, in any record
FLOOD_SECONDS: Final = 5.0
SLOTS: Final = 60

numbers = itertools.count()

NO_SSH: Final = "connect: .*does not speak SSH"


class Case(NamedTuple):
    name: str
    does: Talk | str  # an impostor; or a program: of the runner, or of the role
    says: str  # what the record of the node, of the noderole or of a run says in the end
    seconds: float = 600.0  # that its run may take


IMPOSTORS: Final = [
    Case("closes at once", impostors.closes, NO_SSH),
    Case("resets the connection", impostors.resets, "connect: "),
    Case("takes the call and is mute", impostors.mute, NO_SSH),
    Case("bytes without a line", impostors.floods(b"x" * 65536), "connect: .*more than 8192 bytes before SSH begins"),
    Case("lines without SSH", impostors.floods(b"hello\r\n" * 9000), NO_SSH),
    Case("one byte after the other", impostors.drips(b"SSH", 0.05), NO_SSH),
    Case("one line after the other", impostors.drips(b"welcome\r\n", 0.02), NO_SSH),
    Case("SSH of the last century", impostors.says(b"SSH-1.5-old\r\n"), NO_SSH),
    Case("a banner that is none", impostors.says(b"SSH-nonsense\r\n"), NO_SSH),
    Case(
        "a banner that acts on terminals", impostors.says_and_closes(b"\x1b[2J\x1b]0;owned\x07\x9b\r\n" * 100), NO_SSH
    ),
    Case("a long banner", impostors.says(b"x" * 8000 + b"\r\n"), NO_SSH),
    Case("a web server", impostors.says_and_closes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), NO_SSH),
    Case("TLS", impostors.says_and_closes(b"\x15\x03\x01\x00\x02\x02\x0a"), NO_SSH),
    Case("a banner, and no more", impostors.says(BANNER), NO_SSH),
    Case("a banner, and the end", impostors.says_and_closes(BANNER), NO_SSH),
    Case("a huge packet", impostors.floods(b"\x0f" * 65536, BANNER), NO_SSH),
    Case("garbage", impostors.garbage, NO_SSH),
    Case(
        "packets to be ignored before the keys",
        impostors.floods(b"\0\0\0\x0c\x06\x02\0\0\0\0" + b"\0" * 6, BANNER),
        NO_SSH,
    ),
    Case("keys that are no text", impostors.says(impostors.KEYS_THAT_ARE_NO_TEXT), NO_SSH),
    Case("refuses every key", impostors.ssh(impostors.Refuses), "authenticate: "),
    Case("wants more than a key", impostors.ssh(impostors.WantsMore), "authenticate: .*more than a key"),
    Case("never answers the login", impostors.ssh(impostors.NeverAnswersLogin), "authenticate: "),
    Case("opens no channel", impostors.ssh(impostors.OpensNothing), "run: no new channel"),
    Case("never opens a channel", impostors.ssh(impostors.NeverOpens), "run: no new channel"),
    Case("runs no command", impostors.ssh(impostors.RunsNothing), "run: no new channel"),
    Case("is mute to every command", impostors.ssh(), "run: no runner within"),
    Case("hangs up on every command", impostors.ssh_answers(impostors.hangs_up), "run: "),
    Case("ends every command", impostors.ssh_answers(impostors.exits(255)), "run: "),
    Case("output without end", impostors.ssh_answers(impostors.output_without_end), "run: .*belong to nothing"),
    Case("more than the window", impostors.ssh_answers(impostors.more_than_the_window), "run: .*takes unread"),
    Case(
        "packets to be ignored",
        impostors.ssh_answers(impostors.packets_to_be_ignored),
        "run: .*that were not requested",
    ),
    Case(
        "channels that are no text", impostors.ssh_answers(impostors.channels_that_are_no_text), "run: .*no valid SSH"
    ),
    Case("packets that hold nothing", impostors.ssh_answers(impostors.packets_that_hold_nothing), "run: "),
    Case("questions without end", impostors.ssh_answers(impostors.questions), "run: .*that were not requested"),
    Case("a farewell without end", impostors.ssh_answers(impostors.a_long_farewell), "run: "),
]

READY: Final = r'printf "\n%s READY\n" "$OCB_TOKEN"; read -r order; '
SAY: Final = READY + r'printf "\n%s {}\n" "$OCB_TOKEN"; '
WRITES: Final = SAY.format("WRITTEN")
DONE: Final = r'printf "\n%s DONE started finished 0 r -\n" "$OCB_TOKEN"; cat'
RUNNERS: Final = [
    Case("noise", "exec yes", "run: .*belong to nothing"),
    Case("never ready", "cat", "run: no runner within"),
    Case("asks for the installer again and again", r'while :; do printf "\n%s SEND\n" "$OCB_TOKEN"; done', "run: .*more than"),
    Case("hangs up on the order", READY, "run: the machine's runner ended"),
    Case("a frame without end", READY + r'printf "\n%s " "$OCB_TOKEN"; exec tr -d "\n" </dev/urandom', "run: .*a frame of more"),
    Case("frames without end", READY + r'while :; do printf "\n%s STARTED r\n" "$OCB_TOKEN"; done', "run: .*more than 100 words"),
    Case("no number", SAY.format("DONE a b c d e") + "cat", "where a number belongs"),
    Case("no exit code", SAY.format("DONE started finished 99999999999 r -") + "cat", "the number 99999999999, which is above"),
    Case("no end of a run", SAY.format("DONE started slept 0 r -") + "cat", "where the end of a run belongs"),
    Case("no name of a run", SAY.format("STARTED ../r") + "cat", "where the name of a run belongs"),
    Case("no epoch", SAY.format("FENCED 99999999999999999") + "cat", "which is above"),
    Case("too much is announced", SAY.format("OUTPUT 0 999999999999") + "cat", "which is above"),
    Case("an unknown word", SAY.format("DANCE") + "cat", "run: .*the word 'DANCE'"),
    Case("words that act on terminals", SAY.format(r"BROKEN \033[2J\007") + "cat", "the machine's runner: "),
    Case("attributes without end", f"{WRITES} exec yes", "write_attribute gave back more than"),
    Case("damaged attributes", f'{WRITES} printf "t 9 a\\nx\\n"; {DONE}', "damaged"),
    Case("deep attributes", f'{WRITES} echo j 200000 a; head -c 200000 /dev/zero | tr "\\0" "["; echo; {DONE}', "deeper than"),
    Case("a result without end", SAY.format("OUTPUT 0") + "exec yes", "it prints more than"),
    Case("a later epoch", SAY.format("FENCED 999999999999999") + "cat", "the machine has taken an order of epoch"),
    Case("the run is gone", SAY.format("GONE away") + "cat", "away"),
    Case(
        "always busy",
        READY + r'while :; do printf "\n%s BUSY with itself\n" "$OCB_TOKEN"; read -r order; done',
        "run: with itself",
    ),
    Case("ready, and then mute", READY + "cat", "TRANSITION"),
]  # fmt: skip

KEEPER: Final = 'read -r _ _ _ _ _ keeper _ <"${OCB_RUN%/runs/*}/current"'
SCRIPTS: Final = [
    Case("prints without end", "yes", "it prints more than"),
    Case("too many attributes", "head -c 3000000 /dev/zero | tr '\\0' x | write_attribute big", "gave back more than"),
    Case("control characters", r"printf '\033[2J\233\007'; exit 3", "exit code 3"),
    Case("kills what watches over it", f"{KEEPER}; kill -9 $keeper; sleep 60", "killed"),
    Case("removes the runner's folder", 'rm -rf "${OCB_RUN%/runs/*}"; exit 3', "its files were removed"),
    Case("is killed", "kill -9 $$", "exit code 137"),
    Case("runs out of time", "sleep 600", "timed out", 3.0),
]  # fmt: skip


@pytest.fixture(scope="module")
def canaries(zookeeper: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    """Two annealers with a slot for each hostile machine, and canaries, two of them on machines."""
    chroot = f"/hostile-{secrets.token_hex(4)}"
    folder = tmp_path_factory.mktemp("machines")
    with Canaries(zookeeper, chroot, folder, machines=2, slots=SLOTS) as canaries:
        yield canaries


class Hostile:
    """The hostile machines of a test, each with a noderole to be done on it; a context manager."""

    def __init__(self, canaries: Canaries, folder: Path, *, to_the_end: bool = True) -> None:
        """``to_the_end``: what has come to what is said of it stays in service beside the others."""
        self._canaries, self._folder, self._to_the_end = canaries, folder, to_the_end
        self._stack = ExitStack()
        self._cases: dict[str, Case] = {}  # noderole → its case
        self._seen: set[str] = set()  # those that came to what is said of them

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        """They are taken out of service, and are gone."""
        for noderole in self._cases:
            self._retire(paths.node(noderole.partition("@")[2]))
        self._stack.close()

    def listen(self, cases: Sequence[Case]) -> None:
        """What is no sshd."""
        for case in cases:
            assert callable(case.does)
            impostor = self._stack.enter_context(Impostor(case.does))
            self._add(case, Node(addresses=(impostor.address,), host_keys=(impostors.HOST_KEY,), alive=True), "true")

    def lie(self, cases: Sequence[Case]) -> None:
        """Machines that have another runner in the place of ours."""
        farm = self._farm("liars", len(cases))
        for case, (fqdn, node) in zip(cases, farm.records(), strict=True):
            runner = farm.state_dir(fqdn) / f"runner-{protocol.installer()[1]}" / "runner"
            runner.parent.mkdir(parents=True)
            runner.write_text(f"{case.does}\n")
            self._add(case, node, "true")

    def run(self, cases: Sequence[Case]) -> None:
        """Machines whose role does harm."""
        farm = self._farm("victims", len(cases))
        for case, (_, node) in zip(cases, farm.records(), strict=True):
            self._add(case, node, str(case.does))

    def _farm(self, name: str, count: int) -> Farm:
        """Machines that let the annealers in."""
        folder = self._folder / name
        folder.mkdir()
        for key in ("id_ed25519", "id_ed25519.pub"):
            shutil.copy(self._canaries.farm.directory / key, folder)
        return self._stack.enter_context(Farm(count, folder))

    def _add(self, case: Case, node: Node, script: str) -> None:
        role = f"hostile-{next(numbers)}"
        definition = Role(barclamp="b", jig="script", script=f"{script}\n", timeout_seconds=case.seconds)
        self._canaries.add_role(role, definition)
        self._canaries.add_node(f"{role}.example.com", node)
        self._cases[self._canaries.bind(role, f"{role}.example.com")] = case

    # -- what becomes of them --

    def pending(self) -> dict[str, str]:
        """What has not come to its end, and what is said of it."""
        messages = {name: self._messages(name) for name in self._cases if name not in self._seen}
        seen = {name for name, said in messages.items() if re.search(self._cases[name].says, said, re.DOTALL)}
        for noderole in () if self._to_the_end else seen:
            self._retire(paths.node(noderole.partition("@")[2]))
        self._seen |= seen
        return {self._cases[name].name: said for name, said in messages.items() if name not in self._seen}

    def _messages(self, noderole: str) -> str:
        """What the records of the node, of the noderole and of its runs say now."""
        role, fqdn = paths.split_noderole(noderole)
        session, record = self._canaries.session, self._canaries.record(noderole)
        runs = [session.get(paths.run(role, fqdn, name)) for name in session.children(paths.runs(role, fqdn)) or ()]
        messages = [self._node(paths.node(fqdn))[0].reason, f"{record.state} {record.reason}"]
        messages += [f"{(run := codec.decode(Run, znode)).outcome} {run.reason}" for znode in runs if znode]
        assert all(len(each or "") < LONGEST_REASON for each in messages)
        return "\n".join(map(str, messages))

    def _node(self, path: str) -> tuple[Node, int]:
        znode = self._canaries.session.get(path)
        assert znode is not None
        return codec.decode(Node, znode), znode.version

    def _retire(self, path: str) -> None:
        while True:
            node, version = self._node(path)
            with suppress(Stale):
                self._canaries.session.commit([Set(path, replace(node, available=False), version)])
                return


@pytest.mark.long
@pytest.mark.parametrize("to_the_end", [False, pytest.param(True, marks=pytest.mark.long)])
def test_machines_that_lie_flood_or_die_come_to_their_end_and_disturb_nobody(
    canaries: Canaries, tmp_path: Path, to_the_end: bool
) -> None:
    before = [level(annealer.pid) for annealer in canaries.annealers]
    with Hostile(canaries, tmp_path, to_the_end=to_the_end) as hostile:
        hostile.listen(IMPOSTORS)
        hostile.lie(RUNNERS)
        hostile.run(SCRIPTS)
        deadline = time.monotonic() + SECONDS
        while pending := hostile.pending():
            canaries.sing()
            assert time.monotonic() < deadline, pending
        canaries.sing()
        said = canaries.said()
    assert "this host failed" not in said, "a machine's fault is none of ours"
    assert "CRITICAL" not in said, "no thread has died"
    assert said.count("\n") < LINES, "nothing is said again and again"
    canaries.sing()
    canaries.until(lambda: all(map(as_before, before)), "memory and descriptors are as before")


FLOODS: Final = [
    impostors.floods(b"x" * 65536),
    impostors.floods(b"hello\r\n" * 9000),
    impostors.floods(b"\x0f" * 65536, BANNER),
    impostors.garbage,
    impostors.drips(b"SSH", 0.05),
]


@pytest.mark.long
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.long), 10])
def test_what_floods_in_place_of_sshd_costs_next_to_nothing(canaries: Canaries, tmp_path: Path, count: int) -> None:
    """Each is asked once a second or so, as any machine that is not alive."""
    with Hostile(canaries, tmp_path) as hostile:
        hostile.listen([Case(f"flood {number}", FLOODS[number % len(FLOODS)], NO_SSH) for number in range(count)])
        canaries.until(lambda: not hostile.pending(), "all are not alive")
        before = sum(annealer.cpu_seconds for annealer in canaries.annealers)
        time.sleep(FLOOD_SECONDS)
        spent = sum(annealer.cpu_seconds for annealer in canaries.annealers) - before
    assert spent < FLOOD_SECONDS / 2, "of two annealers"


def level(pid: int) -> tuple[int, int, int]:
    """A process, what it takes of memory, and its descriptors."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pid, pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{pid}/fd"))


def as_before(before: tuple[int, int, int]) -> bool:
    _, memory, descriptors = level(before[0])
    return memory < before[1] + MORE_BYTES and descriptors <= before[2] + MORE_DESCRIPTORS

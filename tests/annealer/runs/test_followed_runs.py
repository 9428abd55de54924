"""The log of a run that goes on on one host, followed from another, whatever breaks between the two."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import pytest

from nodepool_ocb.model.records import Role, State
from nodepool_ocb.testing.processes import CutDaemon
from nodepool_ocb.testing.proxy import Proxy
from nodepool_ocb.testing.zookeeper.server import Server, free_port
from tests.cli.background_command import COMMAND
from tests.journeys.fleet import Fleet

#: An annealer on a host of another name.
ELSEWHERE: Final = """
import ctypes, runpy, socket, sys
assert ctypes.CDLL(None).unshare(0x04000000) == 0  # CLONE_NEWUTS
socket.sethostname(sys.argv.pop(1))
runpy.run_module("nodepool_ocb_annealer.main", run_name="__main__")
"""
LINES: Final = 10_000
WHOLE: Final = b"".join(b"line %d\n" % number for number in range(1, LINES + 1))

needs_hosts = pytest.mark.skipif(
    subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs host names of its own",
)


class Follower:
    """``noderole log -f --raw`` in a process of its own, on this host."""

    def __init__(self, hosts: str, config: Path, noderole: str) -> None:
        command = [*COMMAND, "--config", str(config), "--zookeeper", hosts, "noderole", "log", noderole, "-f", "--raw"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.got, self.said = b"", b""
        self._threads = [
            threading.Thread(target=read, daemon=True)
            for read in (self._reads("got", self._process.stdout), self._reads("said", self._process.stderr))
        ]
        for thread in self._threads:
            thread.start()

    def _reads(self, name: str, stream: IO[bytes] | None) -> Callable[[], None]:
        def read() -> None:
            assert stream is not None
            while data := stream.read1():  # type: ignore[attr-defined]
                setattr(self, name, getattr(self, name) + data)

        return read

    def end(self) -> int:
        code = self._process.wait(60.0)
        for thread in self._threads:
            thread.join(10.0)
        return code

    def kill(self) -> None:
        self._process.kill()
        self.end()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()


class Trial:
    """A run that prints a share of its lines whenever it may, and two annealers that could have it."""

    def __init__(self, fleet: Fleet, server: Server, folder: Path, shares: int) -> None:
        self.fleet, self.folder, self.shares = fleet, folder, shares
        self.printed = 0
        self.first = self._annealer("host-a").start()
        share = LINES // shares
        script = (
            f"i=0\nwhile [ $i -lt {shares} ]; do\n"
            f"  until [ -e {folder}/go.$i ]; do sleep 0.05; done\n"
            f"  seq -f 'line %.0f' $((i * {share} + 1)) $(((i + 1) * {share}))\n  i=$((i + 1))\ndone\n"
        )
        fleet.add_role("counts", Role(barclamp="fleet", jig="script", script=script))
        self.noderole = fleet.bind("counts", fleet.nodes[0])
        fleet.until(lambda: fleet.held_by() is self.first, "it is claimed")
        self.second = self._annealer("host-b").begin()
        self.proxy = Proxy(server.port)
        config = folder / "reader.yaml"
        config.write_text("{zookeeper: {session_timeout_seconds: 2}, annealer: {log_dir: null}}")
        self.reader = Follower(self.proxy.hosts + fleet.chroot, config, self.noderole)

    def _annealer(self, host: str) -> CutDaemon:
        """Its pages look to be no loopback address: others are let in."""
        made = self.fleet.annealer(launcher=("-c", ELSEWHERE, host))
        made.pages = f"0x7f000001:{free_port()}"
        made.configure(http={"listen": made.pages})
        return made

    def prints(self) -> None:
        """One more share, which is to arrive."""
        (self.folder / f"go.{self.printed}").touch()
        self.printed += 1
        lines = LINES // self.shares * self.printed
        self.fleet.until(lambda: self.reader.got.count(b"\n") >= lines, f"{lines} lines are there", 60.0)

    def close(self) -> None:
        self.reader.kill()
        self.proxy.close()

    # -- what breaks --

    def pages_move(self) -> None:
        """The answer that is waited for is cut, and nobody listens there any more."""
        before = self.first.pages
        self.first.pages = f"0x7f000001:{free_port()}"
        self.first.configure(http={"listen": self.first.pages})
        self.first.reload()
        self.fleet.until(self.first.ready, f"not on {before} any more")

    def machine_is_cut(self) -> None:
        self.fleet.farm.cut(0)

    def annealer_dies(self) -> None:
        """Another one, on another host, takes over."""
        self.fleet.until(self.second.ready, "there is another")
        self.first.kill()
        self.fleet.until(lambda: self.fleet.held_by() is self.second, "the other takes over")

    def session_is_lost(self) -> None:
        """The reader's, with ZooKeeper."""
        self.proxy.cut()
        ends = time.monotonic() + 3.0  # longer than its session lives
        self.fleet.until(lambda: time.monotonic() > ends, "its session is over")
        self.proxy.heal()

    def annealer_freezes(self) -> None:
        """It answers nobody until another has taken over; then it knows no better than before."""
        third = self._annealer("host-c").start()
        self.second.freeze()
        self.fleet.until(lambda: self.fleet.held_by() is third, "the third takes over")
        self.second.thaw()


SOME: Final = ("pages_move", "machine_is_cut", "annealer_dies")
ALL: Final = (*SOME, "session_is_lost", "annealer_freezes")


@pytest.mark.long
@needs_hosts
@pytest.mark.parametrize("cuts", [SOME, pytest.param(ALL, marks=pytest.mark.long)], ids=["three cuts", "five cuts"])
def test_ten_thousand_lines_of_a_run_elsewhere_come_byte_for_byte(
    fleet: Fleet, zookeeper: Server, tmp_path: Path, cuts: tuple[str, ...]
) -> None:
    trial = Trial(fleet, zookeeper, tmp_path, shares=5 * len(cuts) - 5)
    try:
        for cut in cuts:
            trial.prints()
            getattr(trial, cut)()
        while trial.printed < trial.shares:
            trial.prints()
        assert trial.reader.end() == 0
        assert trial.reader.got == WHOLE
        assert fleet.state(trial.noderole) is State.ACTIVE
        said = trial.reader.said.decode()
        assert "succeeded, exit code 0; from https://0x7f000001:" in said
        host, _, file = said.splitlines()[-1].rpartition("whole output in ")[2].partition(":")
        assert host == ("host-c" if "annealer_freezes" in cuts else "host-b")
        assert Path(file).read_bytes() == WHOLE, "the path is true"
    finally:
        trial.close()

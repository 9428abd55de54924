"""Scripts of roles, run as the runner on a machine runs them, without the machine: one process for each run or check."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from nodepool_ocb import jigs

LIBRARY: Final = Path(jigs.__file__).parent / "ssh" / "library.sh"


class Ended(NamedTuple):
    """A script that ended."""

    code: int  # of a check, the code that the runner's judge makes of it
    said: str


class Bench:
    """A folder for the files of runs, and the shell that runs scripts."""

    def __init__(
        self, folder: Path, shell: str = "sh", wrapper: tuple[str, ...] = (), programs: str | None = None
    ) -> None:
        self.folder, self._shell, self._wrapper = folder, shell, wrapper
        self._programs = programs or f"{os.environ['PATH']}:/usr/sbin:/sbin"
        folder.mkdir(parents=True)
        commands = folder / "bin"
        commands.mkdir()
        for name in ("read_attribute", "write_attribute"):
            (commands / name).write_bytes((LIBRARY.parent / f"{name}.sh").read_bytes())
            (commands / name).chmod(0o755)
        self.give(b"m\t\t\n")

    def give(self, tree: bytes) -> None:
        """The attributes that scripts read from here on, as jigs.ssh.attributes writes them."""
        (self.folder / "run.tree").write_bytes(tree)

    @property
    def written(self) -> bytes:
        """The attributes that the newest run gave back."""
        file = self.folder / "run.written"
        return file.read_bytes() if file.exists() else b""

    def run(self, script: str, **environment: str) -> Ended:
        return self._ended(script, environment)

    def check(self, script: str, **environment: str) -> Ended:
        """As runner.sh does it, and judges it."""
        notes = [self.folder / "run.same", self.folder / "run.told"]
        for note in notes:
            note.touch()
        ended = self._ended(script, {"OCB_CHECK": "1"} | environment)
        same, compared = (note.exists() for note in notes)
        code = ended.code or (2 if not same else 0 if compared else 1)
        return Ended(code, ended.said)

    def _ended(self, script: str, environment: dict[str, str]) -> Ended:
        for left in self.folder.glob("run.un*"):
            left.unlink()
        (self.folder / "run.written").unlink(missing_ok=True)
        file = self.folder / "script"
        file.write_text(script)
        given = {"PATH": f"{self.folder}/bin:{self._programs}", "OCB_RUN": f"{self.folder}/run"}
        given |= {"OCB_LIBRARY": str(LIBRARY), "OCB_ROOT": "/other", "OCB_NODE": "n1.example.com"} | environment
        words = [*self._wrapper, *self._shell.split(), str(file)]
        done = subprocess.run(
            words, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=30, check=False,
        )  # fmt: skip
        assert not list(self.folder.glob("run.wanted*")), "no wanted content stays"
        return Ended(done.returncode, done.stdout)

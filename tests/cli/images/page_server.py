"""The pages of a builder, in a process that can be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SERVER = """
import sys, threading
from pathlib import Path
from nodepool_ocb.http.server import Pages
from nodepool_ocb.http.logs import LogPage
folder, address = Path(sys.argv[1]), sys.argv[2]
pages = Pages(address, {}, {"logs": LogPage(lambda: folder, lambda name: (folder / "ended").exists())})
print(pages.address, flush=True)
threading.Event().wait()
"""


class PageServer:
    """A builder's pages, in a process that can be killed; a file ``ended`` ends all builds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = "127.0.0.1:0"
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVER, str(self.folder), self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def write(self, name: str, text: str) -> None:
        with (self.folder / f"{name}.log").open("a") as file:
            file.write(text)

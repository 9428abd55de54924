"""The pages of a builder, in a process that can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SERVER = """
import sys, threading
from pathlib import Path
from nodepool_ocb.http.certificates import OwnCertificate
from nodepool_ocb.http.server import Pages
from nodepool_ocb.http.logs import LogPage
from nodepool_ocb.http.page import PrivatePages
folder, address, readers = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
page, certificate = LogPage(lambda: folder, lambda name: (folder / "ended").exists()), OwnCertificate()
pages = Pages(address, {}, PrivatePages({"logs": page}, certificate, lambda: readers))
print(pages.address, certificate.digest, flush=True)
threading.Event().wait()
"""


class PageServer:
    """A builder's pages, in a process that can be killed; a file ``ended`` ends all builds. ``readers``: public keys."""

    def __init__(self, folder: Path, readers: Sequence[str]) -> None:
        self.folder, self.readers = folder, readers
        self.address, self.certificate = "127.0.0.1:0", ""
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVER, str(self.folder), self.address, *self.readers]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address, self.certificate = self.process.stdout.readline().split()

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def write(self, name: str, text: str) -> None:
        with (self.folder / f"{name}.log").open("a") as file:
            file.write(text)

"""The limit of images that a server sends: the shipped configuration on a real nginx, with curl and the agent's own function."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.ports import free_port
from tests.catalogue.test_shipped_barclamps import seen
from tests.environment.agents import LIBRARY

SECONDS = 30.0
SIZE = 3 << 20
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path=PATH) is None or shutil.which("curl") is None, reason="nginx and curl are not installed"
)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class Server:
    """nginx with the configuration that the role makes; it sends two images at a time."""

    def __init__(self, top: Path) -> None:
        self.top, self.url = top, f"http://127.0.0.1:{(port := free_port())}"
        template = str(seen("provisioner-server")["provisioner"]["templates"]["nginx.conf"])  # type: ignore[index,call-overload]
        values = {"@ROOT@": str(top), "@ADDRESS@": "127.0.0.1", "@PORT@": str(port), "@TRANSFERS@": "2"}
        for name, value in values.items():
            template = template.replace(name, value)
        for part in ("http/images/debian/1", "run", "log"):
            (top / part).mkdir(parents=True)
        self.image = os.urandom(SIZE)
        (top / "http/images/debian/1/disk.raw").write_bytes(self.image)
        (top / "http/images/big/1").mkdir(parents=True)
        with (top / "http/images/big/1/disk.raw").open("wb") as big:
            big.truncate(1 << 30)  # no buffer of a connection holds it
        (top / "http/images/debian/1/vmlinuz").write_bytes(b"kernel")
        (top / "nginx.conf").write_text(f"daemon off;\n{template}")
        words = ["nginx", "-c", str(top / "nginx.conf"), "-e", str(top / "log" / "first.log")]
        self._process = subprocess.Popen(words, env={"PATH": PATH}, stdin=subprocess.DEVNULL)
        until(lambda: self.get("vmlinuz") == 200, "nginx answers")

    @property
    def disk(self) -> str:
        return f"{self.url}/images/debian/1/disk.raw"

    def get(self, name: str, *words: str) -> int:
        """The status of a request."""
        url = f"{self.url}/images/debian/1/{name}"
        curl = [
            "curl",
            "--silent",
            "--max-time",
            "20",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
            *words,
            url,
        ]
        return int(subprocess.run(curl, capture_output=True, text=True, check=False).stdout)

    def slow(self, name: str) -> subprocess.Popen[bytes]:
        """A machine that takes a large image slowly, until it is ended; its place is taken on return."""
        big = f"{self.url}/images/big/1/disk.raw"
        curl = ["curl", "--silent", "--max-time", "60", "--limit-rate", "20k", "--output", str(self.top / name), big]
        made = subprocess.Popen(curl)
        until(lambda: (self.top / name).exists() and (self.top / name).stat().st_size > 0, "it is served")
        return made

    @property
    def sum(self) -> str:
        return hashlib.sha256(self.image).hexdigest()

    def log(self) -> list[str]:
        return (self.top / "log" / "access.log").read_text().splitlines()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def server() -> Iterator[Server]:
    top = Path(tempfile.mkdtemp(prefix="ocb-images"))  # the workers of nginx have another user
    top.chmod(0o755)
    made = Server(top)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(top)


def test_a_server_sends_few_images_at_a_time_and_a_third_machine_waits_and_gets_a_whole_one(server: Server) -> None:
    slow = [server.slow("m1"), server.slow("m2")]
    try:
        assert server.get("disk.raw") == 503
        assert server.get("vmlinuz") == 200, "a machine that boots is never refused"
        agent = subprocess.Popen(
            [
                "sh",
                "-c",
                _AGENT.format(library=LIBRARY, run=server.top / "run", url=server.disk, size=SIZE, sum=server.sum),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        until(lambda: sum(" 503 " in line for line in server.log()) >= 3, "the third waits")
        slow[0].kill()
        said, _ = agent.communicate(timeout=SECONDS)
    finally:
        for each in slow:
            each.kill()
            each.wait(10)
    assert agent.returncode == 0, said
    assert (server.top / "run" / "disk").read_bytes() == server.image
    assert said.count("waiting for a place") == 1


def test_an_interrupted_download_goes_on_at_its_byte(server: Server) -> None:
    file = server.top / "half"
    file.write_bytes(server.image[: SIZE // 2])
    curl = ["curl", "--silent", "--fail", "--continue-at", "-", "--output", str(file), server.disk]
    subprocess.run(curl, check=True, timeout=SECONDS)
    assert file.read_bytes() == server.image
    until(lambda: any(f" 206 {SIZE // 2} " in line for line in server.log()), "the second half alone was sent")


_AGENT = """\
set -u
OCB_RUN={run}
. {library}/agent/fetch.sh
PIECE_BYTES=1048576
say() {{ echo "ocb: $*"; }}
die() {{ echo "ocb: FAILED: $*"; exit 1; }}
progress() {{ :; }}
uptime_seconds() {{ cut -d. -f1 /proc/uptime; }}
sleep() {{ command sleep 0.2; }}
sink() {{ cat "$1" >>{run}/disk; }}
fetch {size} {sum} sink {url}
"""

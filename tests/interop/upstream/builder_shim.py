"""Our builder in the place of Nodepool's: each ``NodePoolBuilder`` of a test is a real process of ours on the test's file.

It runs in Nodepool's Python. The builder is the unmodified daemon with ``layout: nodepool``, in the Python OCB_PYTHON. It reads
the file that the test wrote, connects by TLS to the chroot of the test, and runs the package's ``fake-image-create``. Its driver
``fake`` comes from a package of its own (``package_cloud``), and reaches the fake cloud in this process (``cloud_server``).
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import yaml
from cloud_server import CloudServer
from nodepool import builder, launcher
from nodepool.cmd import nodepoolcmd
from nodepool.tests import DBTestCase
from nodepool.zk import ZooKeeperClient
from nodepool.zk import zookeeper as zk

HERE: Final = Path(__file__).parent
START_SECONDS: Final = 60.0
POLL_MILLISECONDS: Final = builder.BUILD_PROCESS_POLL_TIMEOUT
STOP_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.1
LOG_CHARACTERS: Final = 20000
INIT: Final = "import sys; from nodepool_ocb.cli.main import main; sys.exit(main())"
PAUSE: Final = "fake-image-create.pause"
#: The program of the tests looks for its pause file, and leaves a mark, in the folder of its output. Our builder has a folder for
#: each build there, and one for each build below TMPDIR, too. So this program links the pause file, copies the mark, and hands on
#: the TMPDIR of the configuration.
CREATE: Final = """#!/bin/bash
for word in "$@"; do [ "${before:-}" != -o ] || folder=$(dirname "$word"); before=$word; done
export TMPDIR=$(dirname "$TMPDIR")
ln -s ../fake-image-create.pause "$folder/"
PROGRAM "$@" || exit $?
[ ! -e "$folder/fake-image-create.done" ] || touch "$folder/../fake-image-create.done"
"""


class _NoWorker:
    """A thread of Nodepool; ours has none. Its configuration has the fake clouds."""

    def __init__(self, config: Any) -> None:
        self.name, self._config = "none", config

    def shutdown(self) -> None: ...

    def join(self) -> None: ...


class OurBuilder:
    """The attributes of ``NodePoolBuilder`` that tests use."""

    running: ClassVar[list[OurBuilder]] = []

    def __init__(
        self, config_path: str, secure_path: str | None = None, num_builders: int = 1, num_uploaders: int = 4
    ) -> None:
        self.file, self._secure = config_path, secure_path
        self._workers = {"build_workers": num_builders, "upload_workers": num_uploaders}
        self._build_workers: list[Any] = []  # threads of Nodepool
        self._upload_workers: list[Any] = []
        self.cleanup_interval, self.build_interval, self.upload_interval = 60.0, 10.0, 10.0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when the builder is registered."""
        self._folder = Path(tempfile.mkdtemp(prefix="ocb"))
        self._log = self._folder / "log"
        self._clouds = CloudServer(self.file, str(self._folder / "cloud"))
        self._config = self._clouds.config
        self._upload_workers = [_NoWorker(self._config)]
        self._janitor = SimpleNamespace(_config=self._config, _cleanup=self.look_again)
        self._slow_if_the_test_says_so()
        self._connect()
        self._offer_programs()
        self._write_settings()
        if self._run("-c", INIT, "--config", str(self._settings), "init").wait(START_SECONDS):
            raise RuntimeError(self._said())
        known = self._registered()
        self._process = self._run("-m", "nodepool_ocb_builder.main", "--config", str(self._settings))
        self._until(lambda: self._registered() - known, "it registers")
        self.running.append(self)

    def stop(self) -> None:
        """As its unit ends it."""
        if self._process is None:
            return
        if self in self.running:
            self.running.remove(self)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._clouds.close()
        self.zk.disconnect()
        print(f"our builder said:\n{self._said()[-LOG_CHARACTERS:]}", file=sys.stderr)
        for log in sorted(Path(self._config.build_log_dir).glob("*.log"))[-1:]:
            print(f"{log}:\n{log.read_text(errors='replace')[-LOG_CHARACTERS:]}", file=sys.stderr)

    # -- the beginning --

    def _connect(self) -> None:
        """A client of the test's own, as each ``NodePoolBuilder`` has one."""
        config = self._config
        files = {f"tls_{name}": getattr(config, f"zookeeper_tls_{name}") for name in ("ca", "cert", "key")}
        client = ZooKeeperClient(config.zookeeper_servers, **files, timeout=config.zookeeper_timeout)
        client.connect()
        self.zk = zk.ZooKeeper(client, enable_cache=False)

    def _slow_if_the_test_says_so(self) -> None:
        """A test makes a build slow inside Nodepool's build worker; here the pause file does that."""
        if builder.BUILD_PROCESS_POLL_TIMEOUT != POLL_MILLISECONDS:
            (Path(self._config.images_dir) / PAUSE).touch()

    def _offer_programs(self) -> None:
        """Relative names of programs in a file of ours count from the folder of the file."""
        beside, package = Path(self.file).parent / "nodepool/tests", Path("nodepool/tests").resolve()
        if beside.exists():
            return
        beside.mkdir(parents=True)
        (beside / "post-upload-hook").symlink_to(package / "post-upload-hook")
        create = beside / "fake-image-create"
        create.write_text(CREATE.replace("PROGRAM", shlex.quote(str(package / "fake-image-create"))))
        create.chmod(0o755)

    def _write_settings(self) -> None:
        """The times are short, as those of the builders of the tests are. Without cleaning, failed records stay."""
        document = yaml.safe_load(Path(self.file).read_text())
        servers = document["zookeeper-servers"]
        hosts = ",".join(f"{each['host']}:{each['port']}" for each in servers)
        keys = {
            "nodepool": self.file,
            "free_bytes": 0,
            "retry_seconds": 0.5,
            "rebuild_spread": 0,  # Nodepool rebuilds at the exact age
            "drain_seconds": 0.5,
            "sweep_seconds": 2.0,
            **self._workers,
        }
        if self._secure:
            keys["secure"] = self._secure
        if self.cleanup_interval:
            names = ("cleanup_seconds", "failed_keep_seconds", "orphan_grace_seconds")
            keys |= dict.fromkeys(names, self.cleanup_interval)
        zookeeper = {"hosts": hosts + servers[0].get("chroot", ""), "tls": document["zookeeper-tls"]}
        self._settings = self._folder / "nodepool-ocb.yaml"
        self._settings.write_text(yaml.safe_dump({"layout": "nodepool", "zookeeper": zookeeper, "builder": keys}))
        offer = self._folder / "site/upstream_cloud-1.dist-info"
        offer.mkdir(parents=True)
        (offer / "METADATA").write_text("Metadata-Version: 2.1\nName: upstream-cloud\nVersion: 1\n")
        (offer / "entry_points.txt").write_text("[nodepool_ocb.providers]\nfake = package_cloud:PackageCloud\n")

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        places = [str(self._folder / "site"), str(HERE), *os.environ["OCB_PATHS"].split(os.pathsep)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(places),
            "OCB_PACKAGE_CLOUD": str(self._folder / "cloud"),
            "PATH": f"{os.environ['PATH']}{os.pathsep}{self._sudo()}",
        }
        with self._log.open("ab") as log:
            command = [os.environ["OCB_PYTHON"], "-P", *words]  # not the packages of the working directory
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def _sudo(self) -> Path:
        """The backend looks for sudo; these builds do not call it."""
        folder = self._folder / "bin"
        if shutil.which("sudo") is None and not folder.exists():
            folder.mkdir()
            (folder / "sudo").symlink_to("/bin/false")
        return folder

    # -- its state --

    def _registered(self) -> set[str]:
        client, path = self.zk.kazoo_client, "/nodepool/daemons/builder"
        return set(client.get_children(path)) if client.exists(path) else set()

    def _said(self) -> str:
        return self._log.read_text(errors="replace")

    def look_again(self) -> None:
        """A reload has it look at everything again."""
        assert self._process is not None
        before = self._reloads()
        self._process.send_signal(signal.SIGHUP)
        self._until(lambda: self._reloads() > before, "it reloads")

    def _reloads(self) -> int:
        return sum(self._said().count(words) for words in ("loop: reloaded", "the configuration was read again"))

    def _until(self, holds: Callable[[], object], description: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not holds():
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{description}: not within {START_SECONDS:g} s:\n{self._said()[-LOG_CHARACTERS:]}")
            time.sleep(LOOK_SECONDS)


def _replace_config(test: Any, configfile: str, filename: str) -> None:
    """As an administrator does: a new file, then a reload."""
    REPLACE(test, configfile, filename)
    for each in OurBuilder.running:
        if each.file == configfile:
            each.look_again()


REPLACE: Final = DBTestCase.replace_config


def install() -> None:
    """Before a test begins, and before another shim replaces the launcher: the command line makes one to read its file."""
    nodepoolcmd.launcher = SimpleNamespace(**vars(launcher))
    builder.NodePoolBuilder = OurBuilder
    DBTestCase.replace_config = _replace_config

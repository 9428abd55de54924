"""Secrets on their way through real runs: scripts see them, and nothing that remains does."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from nodepool_ocb.config import SecretsSettings, ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy import keyring
from nodepool_ocb.secrecy.opening import Secrets
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from nodepool_ocb.testing.zookeeper.server import Server
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

Ask = Callable[..., Json]
N1 = "n1.example.com"
PASSWORD, TOKEN, MADE = "pw-Zq7/vault&sea", "token-Kx93-of-the-api", "made-Wd55-on-machine"

BARCLAMP = """\
barclamp: {name: shop, version: 1}
roles:
  - name: db
    jig: script
    attribs:
      - {name: password, map: db/password, secret: true}
      - {name: token, map: db/token, secret: true}
      - {name: made, map: db/made, secret: true}
    script: |
      set -x
      password=$(read_attribute db/password)
      echo "$password" "$(read_attribute db/token)"
      printf %s "user:$password" | base64
      printf %s "${password%%/*}"; sleep 0.5; printf '%s\\n' "/${password#*/}"
      cat "$OCB_ATTRIBUTES"
      echo "$password" | write_attribute copied/password
      echo "url://$password@host" | write_attribute copied/url
      set +x
      made=made-
      echo "${made}Wd55-on-machine" | write_attribute db/made
  - name: shop
    jig: script
    requires: [db]
    script: |
      echo "cannot log in with $(read_attribute copied/password) and $(read_attribute db/made)" >&2
      exit 3
"""


@pytest.fixture
def daemon(
    ocb: Ocb, zk_settings: ZooKeeperSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DaemonProcess]:
    """An annealer without a key, one machine, and a command line that has one; roles db and shop are bound there."""
    keyring.generate(tmp_path / "secrets.key")
    (tmp_path / "ocb.yaml").write_text(yaml.safe_dump({"secrets": {"key_file": "secrets.key"}}))
    (tmp_path / "shop.yml").write_text(BARCLAMP)
    (tmp_path / "password").write_text(PASSWORD)
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(tmp_path / "ocb.yaml"))
    monkeypatch.setenv("NODEPOOL_OCB_SECRET_API", TOKEN)
    with lab(ocb, zk_settings, tmp_path, 1) as running:
        for line in (
            f"barclamp import {tmp_path / 'shop.yml'}",
            f"node bind {N1} shop",
            f"noderole set db@{N1} password=@{tmp_path / 'password'} token=secret:env:NODEPOOL_OCB_SECRET_API",
        ):
            answer = ocb(*line.split())
            assert answer.exit_code == 0, answer.output
        yield running


def forms(secret: str) -> list[bytes]:
    whole = base64.b64encode(f"user:{secret}".encode()).rstrip(b"=")
    return [secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")[:-1], whole[8:-2]]


def found_in(folders: list[Path]) -> list[str]:
    """The files in which a secret stands."""
    patterns = [form for secret in (PASSWORD, TOKEN, MADE) for form in forms(secret)]
    return [
        str(file)
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and any(form in file.read_bytes() for form in patterns)
    ]


class Watch:
    """Samples what ``ps`` shows, until it is left."""

    def __enter__(self) -> Watch:
        self.samples: list[bytes] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.samples.append(subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, check=True).stdout)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_nothing_that_remains_of_runs_holds_a_secret(
    daemon: DaemonProcess, ocb: Ocb, ask: Ask, tmp_path: Path, zookeeper: Server, zk_session: Session
) -> None:
    with Watch() as watch:
        assert ocb("deployment", "commit", "lab").exit_code == 0
        assert ocb("node", "commit", N1).exit_code == 0
        await_that(lambda: "GIVEN_BACK" in ocb("noderole", "explain", f"db@{N1}").output, 60, "it says what is missing")
        assert "secrets.key_file is not set" in ocb("noderole", "explain", f"db@{N1}").output
        assert ask("noderole", "show", f"db@{N1}")["attempt"] == 0  # no noderole is to blame
        daemon.configure(secrets={"key_file": str(tmp_path / "secrets.key")}, log={"level": "debug"})
        daemon.reload()
        state = lambda: ask("noderole", "show", f"shop@{N1}")["state"]  # noqa: E731
        await_that(lambda: state() == "ERROR", 90, "both have run", alive=lambda: daemon.running)
    texts = [ocb(*line.split(), "-o", form).output for line in LOOKS for form in ("json", "table", "yaml")]
    (tmp_path / "shown").write_text("\n".join(texts))
    (tmp_path / "shown.ps").write_bytes(b"".join(watch.samples))
    (tmp_path / "password").unlink()
    assert len(watch.samples) > 2
    logs = list((tmp_path / "annealer").rglob("*.log"))
    assert any(b"(secret)" in each.read_bytes() for each in logs)
    assert found_in([zookeeper.directory, tmp_path / "annealer"]) == []
    assert [each for each in found_in([tmp_path]) if "/machines/" not in each] == []
    znode = zk_session.get(paths.wall("db", N1))
    keys = SecretsSettings(key_file=str(tmp_path / "secrets.key"))
    wall = Secrets(keys).opened(codec.attributes(znode)).attributes  # what the child was given
    assert wall["copied"] == {"password": PASSWORD, "url": f"url://{PASSWORD}@host"}
    assert wall["db"] == {"made": MADE}
    private = [
        each for each in (tmp_path / "machines").rglob("*.attributes.json") if PASSWORD.encode() in each.read_bytes()
    ]
    assert private
    assert all(os.stat(each).st_mode & 0o077 == 0 for each in private)


LOOKS = (
    f"noderole show db@{N1}",
    f"noderole show shop@{N1}",
    f"noderole log db@{N1}",
    f"noderole log shop@{N1}",
    f"noderole explain shop@{N1}",
    f"noderole attributes db@{N1}",
    f"noderole attributes shop@{N1}",
    "noderole list --outdated",
    "deployment show lab",
    "role show db",
    "secret list",
    "status",
)

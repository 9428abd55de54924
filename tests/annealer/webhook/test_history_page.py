"""The receiver that docs/history.md prints takes what an annealer sends, once, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nodepool_ocb import config
from nodepool_ocb.config import WebhookSettings, ZooKeeperSettings
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.testing.zookeeper.server import free_port
from nodepool_ocb_annealer.webhook import batches, receiver
from tests.annealer.webhook.posters import Poster, entry, write

PAGE = Path(__file__).parents[3] / "docs/history.md"


def printed(kind: str) -> str:
    """The text of the page's one block of a kind."""
    return PAGE.read_text().partition(f"```{kind}\n")[2].partition("```")[0]


def test_the_printed_configuration_can_be_read_and_the_printed_body_has_the_keys_of_a_real_one(tmp_path: Path) -> None:
    (tmp_path / "nodepool-ocb.yaml").write_text(printed("yaml"))
    wanted = WebhookSettings(url="https://hooks.example.com/ocb", secret_file=str(tmp_path / "webhook.key"))
    assert config.load(tmp_path).annealer.webhook == wanted
    shown = json.loads(printed("json"))
    real = json.loads(batches.body("c", batches.batch(16, [17], [(17, entry("n1"), "")])))
    assert shown.keys() == real.keys()
    assert shown["entries"][0].keys() <= real["entries"][0].keys()


def test_the_printed_receiver_takes_signed_entries_once(
    zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path, until: Callable[..., None]
) -> None:
    key, port = tmp_path / "webhook.key", free_port()
    key.write_text("of signatures\n")
    key.chmod(0o600)
    program = printed("python")
    assert "8080" in program
    url = f"http://127.0.0.1:{port}/"
    said = tmp_path / "said"
    with said.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-c", program.replace("8080", str(port))],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    try:
        until(lambda: receiver.post(url, b"{}", {}) == "answers 403")
        with Poster(zk_settings, "a", WebhookSettings(url=url, secret_file=str(key))):
            until(lambda: journal.cursor(zk_session)[0])
            write(zk_session, 2)
            until(lambda: journal.cursor(zk_session)[1] >= 2 and said.read_text().count("\n") == 2)
        repeated = batches.body("c", batches.batch(-1, [0, 1], [each[:3] for each in journal.read(zk_session, [0, 1])]))
        assert receiver.post(url, repeated, batches.headers(repeated, b"of signatures")) is None
        assert receiver.post(url, repeated, batches.headers(repeated, b"another key")) == "answers 403"
    finally:
        server.terminate()
        server.wait()
    assert said.read_text().splitlines() == ["0 ann node set n0.example.com", "1 ann node set n1.example.com"]

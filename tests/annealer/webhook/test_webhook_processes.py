"""The webhook of real annealers: one is killed, one is reloaded while it works, and its receiver hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nodepool_ocb.config import WebhookSettings, ZooKeeperSettings
from nodepool_ocb.model import paths
from nodepool_ocb.store import journal
from nodepool_ocb.store.client.session import Session
from nodepool_ocb.store.locks import holders
from nodepool_ocb.store.world.load import load_world
from nodepool_ocb.testing.grid import Grid
from nodepool_ocb.testing.processes import DaemonProcess, await_that
from tests.annealer.webhook.posters import Got, Poster, Receiver, write


def annealer(settings: ZooKeeperSettings, folder: Path, webhook: dict[str, Any] | None) -> DaemonProcess:
    section = {"sweep_seconds": 3600.0, "log_dir": None, "webhook": webhook}
    return DaemonProcess(replace(settings, session_timeout_seconds=2.0), folder, {"annealer": section})


def sender(session: Session) -> int | None:
    """The process that has the lock."""
    (holder,) = holders(session, [paths.WEBHOOK_LOCK])
    return holder.pid if holder is not None else None


def delivered(session: Session) -> int | None:
    known, _ = journal.cursor(session)
    return known.delivered if known is not None else None


def test_when_who_sends_is_killed_another_goes_on_without_a_loss(
    zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path
) -> None:
    with Receiver() as taker, annealer(zk_settings, tmp_path / "a", {"url": taker.url}) as one:
        await_that(lambda: delivered(zk_session) == -1, 20.0, "the webhook has begun")
        with Poster(zk_settings, "b", WebhookSettings(url=taker.url)) as other:
            write(zk_session, 2)
            await_that(lambda: delivered(zk_session) == 1, 20.0, "it sends")
            assert sender(zk_session) == one.pid
            await_that(lambda: one.metric("nodepool_ocb_webhook_entries_total") == 2, 20.0, "it counts")
            assert one.metric("nodepool_ocb_webhook_lag") == 0
            one.kill()
            write(zk_session, 3)
            await_that(lambda: delivered(zk_session) == 4, 20.0, "the other sends")
            await_that(lambda: other.sends, 20.0, "it knows of its lock, a turn after the attempt")
        assert taker.numbers == [0, 1, 2, 3, 4]


def test_a_webhook_that_a_reload_brings_and_whose_receiver_hangs_holds_up_no_noderole_and_no_end(
    zk_settings: ZooKeeperSettings, zk_session: Session, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("key")
    key.chmod(0o644)
    grid = Grid(nodes=2, lanes=2, depth=3)
    grid.write(zk_session)

    def hang(_: Got) -> int:
        taker.free.wait(60.0)
        return 200

    with (
        Receiver(hang) as taker,
        annealer(zk_settings, tmp_path / "a", {"url": "http://h/", "secret_file": "x"}) as one,
    ):
        assert f"annealer.webhook.secret_file: secret file {one.config.parent / 'x'} cannot be read" in one.said
        one.configure(annealer={"webhook": None})
        one.reload()
        await_that(lambda: "reloaded" in one.said, 20.0, "there is no webhook", alive=one.running)
        webhook = {"url": taker.url, "secret_file": str(key)}
        one.configure(annealer={"webhook": webhook})
        one.reload()
        refused = f"annealer.webhook.secret_file: secret file {key} may be used by others than its owner; chmod 600"
        await_that(lambda: refused in one.said, 20.0, "the reload is refused", alive=one.running)
        key.chmod(0o600)
        one.reload()
        await_that(lambda: delivered(zk_session) == -1, 20.0, "the webhook has begun", alive=one.running)
        write(zk_session)
        await_that(lambda: bool(taker.got), 20.0, "it was sent something", alive=one.running)
        grid.start(zk_session)
        await_that(grid.finished(zk_session), 8.0, "every noderole is ACTIVE", alive=one.running)
        assert delivered(zk_session) == -1, "the receiver has not answered yet"
        assert {vertex.record.generation for vertex in load_world(zk_session).vertices()} == {1}
        assert one.metric("nodepool_ocb_webhook_failures_total") == 0
        taker.free.set()
        await_that(lambda: delivered(zk_session) == 0, 20.0, "it went on", alive=one.running)
        assert taker.url not in one.said
        taker.free.clear()
        write(zk_session)
        await_that(lambda: len(taker.got) == 2, 20.0, "it hangs again", alive=one.running)
        one.terminate()
        assert one.wait(8.0) == 0, "it ends in time, without force"
        assert delivered(zk_session) == 0

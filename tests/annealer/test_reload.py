"""An annealer's configuration is read again: what counts at once, what is named, and what is refused."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from msgspec.structs import replace

from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Daemon, Node, State
from nodepool_ocb.store.client import codec
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.annealer.machines.test_host_faults import not_ready
from tests.journeys.fleet import Fleet


def registered(fleet: Fleet) -> Daemon:
    (name,) = fleet.session.children(paths.daemons("annealer")) or ()
    znode = fleet.session.get(paths.daemon("annealer", name))
    assert znode is not None
    return codec.decode(Daemon, znode)


def rotate_key(fleet: Fleet) -> None:
    """The machines take another key from now on, and its file is where the old one was."""
    key = Path(fleet.farm.settings()["key_files"][0])
    for file in (key, key.with_suffix(".pub")):
        file.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)


def log_in_again(fleet: Fleet) -> None:
    """Every connection ends."""
    fleet.farm.kill(0)
    fleet.farm.start(0)


def test_slots_log_and_port_count_at_once(fleet: Fleet) -> None:
    annealer = fleet.annealer().start()
    pages = f"127.0.0.1:{free_port()}"
    annealer.configure(annealer={"slots": 3}, log={"format": "json", "level": "debug"}, http={"listen": pages})
    annealer.reload()
    fleet.until(lambda: '"message": "reloaded"' in annealer.said, "the log has the new format")
    annealer.pages = pages
    fleet.until(lambda: annealer.metric("nodepool_ocb_slots") == 3, "it has three slots, and says so at another port")
    fleet.until(lambda: registered(fleet).slots == 3, "others know of the slots")
    fleet.until(lambda: '"level": "DEBUG"' in annealer.said, "it logs more")


def test_a_rotated_key_counts_from_the_reload_on(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    fleet.add_role("second", fleet.work(0.0))
    annealer = fleet.annealer().start()
    fleet.until_state(fleet.bind("first", fleet.nodes[0]), State.ACTIVE)
    rotate_key(fleet)
    annealer.reload()
    fleet.until(lambda: "reloaded" in annealer.said, "it has read the key")
    log_in_again(fleet)
    fleet.until_state(fleet.bind("second", fleet.nodes[0]), State.ACTIVE)


def test_a_key_that_cannot_be_read_refuses_the_reload_and_the_old_one_goes_on(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    fleet.add_role("second", fleet.work(0.0))
    annealer = fleet.annealer().start()
    fleet.until_state(fleet.bind("first", fleet.nodes[0]), State.ACTIVE)
    Path(fleet.farm.settings()["key_files"][0]).unlink()
    annealer.configure(annealer={"slots": 3})
    annealer.reload()
    fleet.until(lambda: "the keys that were read before stay in use" in annealer.said, "it says what is wrong")
    log_in_again(fleet)
    fleet.until_state(fleet.bind("second", fleet.nodes[0]), State.ACTIVE)
    assert annealer.metric("nodepool_ocb_slots") == 10
    assert "reloaded" not in annealer.said


def test_another_zookeeper_and_another_state_folder_wait_for_a_restart(fleet: Fleet) -> None:
    fleet.add_role("first", fleet.work(0.0))
    annealer = fleet.annealer().start()
    annealer.configure(zookeeper={"hosts": "127.0.0.1:1/elsewhere"}, ssh={"state_dir": "~/elsewhere"})
    annealer.reload()
    fleet.until(lambda: "needs a restart: zookeeper.hosts, ssh.state_dir" in annealer.said, "it names them")
    fleet.until_state(fleet.bind("first", fleet.nodes[0]), State.ACTIVE)
    assert (fleet.farm.state_dir(fleet.nodes[0]) / "history").exists()
    assert "reloaded" not in annealer.said


def test_a_shorter_interval_counts_for_timers_that_stand(fleet: Fleet) -> None:
    annealer = fleet.annealer(probe_seconds=3600.0, dead_probe_seconds=3600.0).start()
    annealer.configure(annealer={"probe_seconds": 0.3, "dead_probe_seconds": 0.3})
    annealer.reload()
    fleet.until(lambda: annealer.metric('nodepool_ocb_probes_total{outcome="alive"}') >= 2, "it probes")


def test_the_newest_reason_of_a_dead_machine_counts_though_the_step_is_the_same(fleet: Fleet) -> None:
    port = free_port()
    fleet.add_node("new.example.com", Node(addresses=(f"127.0.0.1:{port}",), user="root", deployment="fleet"))
    fleet.annealer().start()

    def reason() -> str:
        return fleet.node("new.example.com").reason or ""

    fleet.until(lambda: "Connection refused" in reason(), "nobody listens there")
    with socket.create_server(("127.0.0.1", port)) as mute:
        mute.settimeout(0.01)

        def reported() -> bool:
            _hang_up(mute)
            return "does not speak SSH" in reason()

        fleet.until(reported, "somebody listens who speaks no SSH")
        known = fleet.session.get(paths.node("new.example.com"))
        for _ in range(3):
            fleet.until(lambda: _hang_up(mute), "it is asked again")
        again = fleet.session.get(paths.node("new.example.com"))
        assert known
        assert again
        assert known.version == again.version


def _hang_up(listener: socket.socket) -> bool:
    """Whether somebody called."""
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


def test_the_newest_reason_why_nobody_could_ask_counts(fleet: Fleet) -> None:
    (machine,) = fleet.nodes
    fleet.add_node("new.example.com", replace(fleet.node(machine), alive=False))
    key = Path(fleet.farm.settings()["key_files"][0])
    right = key.read_text()
    key.unlink()
    annealer = fleet.annealer().begin()
    fleet.until(lambda: "none of the key files exists" in not_ready(annealer), "it says that there is none")
    key.write_text("no key\n")
    fleet.until(lambda: f"key file {key}" in not_ready(annealer), "it says that it is no key")
    key.write_text(right)
    key.chmod(0o600)
    fleet.until(lambda: fleet.node("new.example.com").alive, "it is alive")

"""The shipped units under a real systemd, installed as docs/operations.md prints it: alone, together, and on a machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.engine import Engine, why_not
from nodepool_ocb.testing.mirrors import mirror
from nodepool_ocb.testing.zookeeper.server import free_port
from tests.docs.host import IMAGE, Host, make
from tests.docs.pages import ROOT, Fate, blocks

pytestmark = pytest.mark.long

ANNEALER, BUILDER, TARGET = "nodepool-ocb-annealer", "nodepool-ocb-builder", "nodepool-ocb.target"
LAUNCHER = "nodepool-ocb-launcher"
PORTS = {ANNEALER: 9470, BUILDER: 9471, LAUNCHER: 9472}
CONFIG = "/etc/nodepool-ocb/nodepool-ocb.yaml"
READY = 'test ok = "$(curl -s http://127.0.0.1:{}/health/ready | head -n 1)"'
#: The blocks of the page that install, in order: programs, key, cluster, annealer; builder; rootless builder; launcher.
STEPS = [
    block for block in blocks(ROOT / "docs/operations.md") if block.fate is Fate.RUN or "test_systemd" in block.word
]
RACK = """\
labels: [{name: lab}]
providers:
  - {name: rack, driver: static, pools: [{name: main, nodes: [{name: 127.0.0.1, labels: lab, username: root}]}]}
"""
MACHINE = """\
mkdir -p /root/.ssh /root/slow/script/roles/slow
cat /etc/nodepool-ocb/id_ed25519.pub >/root/.ssh/authorized_keys
chmod -R go= /root/.ssh
printf 'barclamp: {name: slow}\\nroles: [{name: slow, jig: script}]\\n' >/root/slow/slow.yml
printf 'sleep 4\\nid -u\\n' >/root/slow/script/roles/slow/slow.sh
systemctl start ssh
nodepool-ocb barclamp import /root/slow
nodepool-ocb node create n1.example.com --address 127.0.0.1
nodepool-ocb node bind n1.example.com slow
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if reason := why_not():
        pytest.skip(f"no container engine: {reason}")
    tar = Path(os.environ.get("NODEPOOL_OCB_TEST_HOST") or tmp_path_factory.mktemp("host") / "host.tar")
    if not tar.exists():
        address = mirror("debian") or pytest.skip("apt knows no mirror of debian here")
        make(tar, address)
    with Engine() as engine:
        engine.run("import", "--change", 'CMD ["/sbin/init"]', str(tar), IMAGE, timeout_seconds=600.0)
        yield engine


@pytest.fixture(scope="module")
def installed(engine: Engine) -> Iterator[Host]:
    """All daemons as the page installs them, and ZooKeeper."""
    with Host(engine) as host:
        host.zookeeper()
        for step in [*STEPS[:5], STEPS[6]]:
            host.sh(step.text)
        yield host


@pytest.fixture
def host(installed: Host) -> Iterator[Host]:
    """The same with no daemon running, and nothing changed by other tests."""
    host = installed
    host.sh(f"cp -a {CONFIG} /root/kept; systemctl stop {' '.join(PORTS)}; systemctl start zookeeper")
    host.zookeeper()
    yield host
    host.sh(f"cat /root/kept >{CONFIG}; rm -f /etc/systemd/system/*.d/test.conf; systemctl daemon-reload")


def test_the_page_s_commands_start_all_daemons_beside_one_another(installed: Host) -> None:
    for unit, port in PORTS.items():
        installed.sh(READY.format(port))
        assert (installed.active(unit), installed.shown(unit, "NRestarts")) == (True, "0")
    said = installed.sh("journalctl --no-pager -u 'nodepool-ocb-*'")
    assert "mode is different" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("unit", PORTS)
def test_a_unit_alone_is_ready_when_its_start_comes_back(host: Host, unit: str) -> None:
    host.sh(f"systemctl start {unit}; {READY.format(PORTS[unit])}")
    assert [each for each in PORTS if host.active(each)] == [unit]


def test_the_target_starts_reloads_and_stops_what_is_enabled(host: Host) -> None:
    host.sh(f"systemctl enable {TARGET}; systemctl start {TARGET}")
    for port in PORTS.values():
        host.until(READY.format(port), "it is ready")
    host.sh(f"sed -i 's/slots: 10/slots: 3/; s/build_workers: 1/build_workers: 2/' {CONFIG}; systemctl reload {TARGET}")
    for unit in PORTS:
        host.until(f"journalctl --no-pager -u {unit} -n 50 | grep reloaded", f"{unit} has reloaded")
    host.sh(f"systemctl stop {TARGET}")
    assert not any(map(host.active, PORTS))


def test_without_zookeeper_a_start_fails_and_comes_up_by_itself_when_it_is_there(host: Host) -> None:
    host.sh("systemctl stop zookeeper")
    host.refused(f"systemctl start {ANNEALER}")
    host.until_shown(ANNEALER, "ZooKeeper")
    host.zookeeper()
    host.until(READY.format(9470), "it came up by itself")


def test_zookeeper_that_goes_and_comes_back_restarts_nobody(host: Host) -> None:
    host.sh(f"systemctl start {' '.join(PORTS)}")
    before = {unit: host.shown(unit, "MainPID") for unit in PORTS}
    host.sh("systemctl stop zookeeper")
    for unit in PORTS:
        host.until_shown(unit, "ZooKeeper does not answer")
    host.zookeeper()
    for unit, port in PORTS.items():
        host.until(READY.format(port), "it is ready again")
        host.until(f"systemctl show --value -p StatusText {unit} | grep -v ZooKeeper", "systemd knows")
        assert host.shown(unit, "MainPID") == before[unit]


@pytest.mark.parametrize("unit", PORTS)
def test_a_daemon_that_is_frozen_is_started_anew_by_the_watchdog(host: Host, unit: str) -> None:
    host.drop_in(unit, "WatchdogSec=6s")
    host.sh(f"systemctl start {unit}")
    pid = host.shown(unit, "MainPID")
    host.sh(f"kill -STOP {pid}")
    host.until(f"test $(systemctl show --value -p MainPID {unit}) != {pid}; {READY.format(PORTS[unit])}", "a new one")
    assert "Watchdog timeout" in host.sh(f"journalctl --no-pager -u {unit} -n 60")


def test_a_good_reload_counts_a_bad_one_fails_and_what_waits_is_shown(host: Host) -> None:
    host.sh(f"systemctl start {ANNEALER}")
    pid = host.shown(ANNEALER, "MainPID")
    host.sh(f"sed -i 's/slots: 10/slots: 3/; s/level: info/level: debug/' {CONFIG}; systemctl reload {ANNEALER}")
    slots = "curl -s http://127.0.0.1:9470/metrics | grep -x 'nodepool_ocb_slots {}.0'"
    host.until(slots.format(3), "it has three slots")
    host.sh(f"sed -i 's/slots: 3/slots: many/' {CONFIG}")
    host.refused(f"systemctl reload {ANNEALER}")
    assert "annealer.slots" in host.sh(f"journalctl --no-pager -u {ANNEALER} -n 30")
    assert host.active(ANNEALER)
    host.sh(f"sed -i 's/slots: many/slots: 4/; s/hosts: 127.0.0.1:2181/hosts: 127.0.0.1:2182/' {CONFIG}")
    host.sh(f"systemctl reload {ANNEALER}")
    host.until_shown(ANNEALER, "needs a restart: zookeeper.hosts")
    host.until(slots.format(4), "the rest counts")
    assert host.shown(ANNEALER, "MainPID") == pid


def test_an_annealer_whose_host_is_a_machine_drains_for_longer_than_its_unit_says(host: Host) -> None:
    host.drop_in(ANNEALER, "TimeoutStopSec=2s")
    host.sh(f"sed -i '/^annealer:/,/^builder:/s/drain_seconds: .*/drain_seconds: 30.0/' {CONFIG}")
    host.sh(f"systemctl start {ANNEALER}\n{MACHINE}")
    host.sh("nodepool-ocb node commit n1.example.com")
    host.until_shown(ANNEALER, "working on 1 node")
    host.sh(f"systemctl stop {ANNEALER}")
    assert host.shown(ANNEALER, "Result") == "success"
    assert "ACTIVE" in host.sh("nodepool-ocb noderole list -o json")
    assert host.sh("stat -c '%U %a' /var/lib/nodepool-ocb").strip() == "root 700"
    host.sh(f"systemctl start {ANNEALER}; nodepool-ocb noderole redeploy slow@n1.example.com --wait")
    assert host.sh("stat -c '%U %a' /var/lib/nodepool-ocb").strip() == "root 700"
    host.sh("! find /var/lib/nodepool-ocb ! -user root | grep .")


def test_a_launcher_takes_over_its_file_hands_out_a_machine_and_drains(host: Host) -> None:
    host.sh(f"systemctl start ssh {LAUNCHER}; cp -a /etc/nodepool-ocb/nodepool.yaml /root/images.yaml")
    pid = host.shown(LAUNCHER, "MainPID")
    host.sh(f"cat >/etc/nodepool-ocb/nodepool.yaml <<'END'\n{RACK}END\nsystemctl reload {LAUNCHER}")
    host.sh("nodepool-ocb request create --label lab --wait --timeout 120")
    assert "ready" in host.sh("nodepool-ocb lease list")
    host.sh("printf 'providers: 5\n' >/etc/nodepool-ocb/nodepool.yaml")
    host.refused(f"systemctl reload {LAUNCHER}")
    assert host.shown(LAUNCHER, "MainPID") == pid, "it goes on with its former file"
    host.sh(f"systemctl stop {LAUNCHER}; cat /root/images.yaml >/etc/nodepool-ocb/nodepool.yaml")
    assert host.shown(LAUNCHER, "Result") == "success"


def test_a_rootless_builder_builds_and_uploads(engine: Engine) -> None:
    address = mirror("debian")
    with Host(engine, network="host") as host:
        ports = {"2181": free_port(), "9470": free_port(), "9471": free_port()}
        host.sh("systemctl disable --now ssh")
        host.sh("".join(f"sed -i s/{old}/{new}/ /etc/zk.cfg\n" for old, new in ports.items()))
        host.sh("systemctl start zookeeper")
        change = "".join(f"sed -i s/{old}/{new}/ {CONFIG}\n" for old, new in ports.items())
        for step in STEPS[:2]:
            host.sh(step.text)
        host.sh(change)
        host.until("nodepool-ocb init", "ZooKeeper serves")
        host.sh(STEPS[3].text)
        options = f"    options: {{mirror: {address}}}"
        host.sh(STEPS[4].text.splitlines()[0])
        host.sh(
            f"sed -i 's#^    release: bookworm#&\\n{options}#' /etc/nodepool-ocb/nodepool.yaml; {STEPS[4].text.splitlines()[1]}"
        )
        host.sh(STEPS[5].text)
        began = time.monotonic()
        host.until_shown(BUILDER, "building debian-bookworm")
        host.until("ls /srv/images | grep -x 'debian-bookworm-.*tar'", "it is built and uploaded", 1800.0)
        print(f"built in {time.monotonic() - began:.0f} s")
        pid = host.shown(BUILDER, "MainPID")
        assert host.sh(f"stat -c %U /proc/{pid}").strip() == "nodepool-ocb"
        assert host.sh("stat -c %U /var/lib/nodepool-ocb-builder/images").strip() == "nodepool-ocb"

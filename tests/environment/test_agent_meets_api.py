"""The agent against a real server of the API, with TLS and real tokens: a double cannot know what the API refuses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodepool_ocb.config import ZooKeeperSettings
from nodepool_ocb.operations.joining.rules import AdoptionSet
from nodepool_ocb.testing.virtual.site import certificates
from tests.api.served import ServedApi
from tests.environment.agents import MAC, FileMachine

#: Between two questions it waits for the word of the test.
DISCOVERS = """\
mode=discovery node=
set_clock() { :; }; rest() { :; }; hostname() { :; }
sleep() { : >"$OCB_RUN/waits"; while [ ! -e "$OCB_RUN/goes-on" ]; do busybox sleep 0.1; done; }
discover
"""


@pytest.fixture
def api(zk_settings: ZooKeeperSettings, tmp_path: Path) -> ServedApi:
    certificates(tmp_path, "127.0.0.1")
    return ServedApi(zk_settings, tmp_path / "api", cert=str(tmp_path / "api.pem"), key=str(tmp_path / "api.key"))


def test_a_machine_waits_for_a_rule_and_becomes_its_node(
    api: ServedApi, tmp_path: Path, until: Callable[..., None]
) -> None:
    machine = FileMachine(tmp_path / "machine")
    etc = tmp_path / "machine" / "etc"
    (etc / "ca.pem").write_text((tmp_path / "ca.pem").read_text())
    (etc / "api").write_text(f"{api.address}\n")
    (etc / "join-token").write_text(api.direct.token("machines", role="join") + "\n")
    (tmp_path / "machine/proc/cmdline").write_text(f"ocb.mode=discovery ocb.mac={MAC}\n")
    machine.disks({"path": "/dev/sda", "size": 1 << 30, "serial": "one"})
    try:
        with ThreadPoolExecutor(1) as beside:
            done = beside.submit(machine.does, DISCOVERS)
            until(lambda: (machine.run_folder / "waits").exists() or done.done())
            api.direct.perform(AdoptionSet(rule="all", assignments=("name=n{n}.example.com",)))
            (machine.run_folder / "goes-on").touch()
            said = done.result(60.0).stdout
        assert "refused" not in said
        assert "ocb: adopted as n1.example.com" in said
        own = (tmp_path / "machine/own/token").read_text().strip()
        facts = api.ask("GET", "/v1/nodes/n1.example.com", token=own)
        assert facts.status_code == 200, facts.text
    finally:
        api.close()

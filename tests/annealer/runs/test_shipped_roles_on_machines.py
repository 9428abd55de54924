"""The shipped roles on a real machine, through an annealer: in sync after their runs, and mended by a refresh."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from nodepool_ocb.config import ZooKeeperSettings
from tests.fixtures.commands import Ocb
from tests.fixtures.labs import lab

BARCLAMPS: Final = Path(__file__).parents[3] / "etc" / "barclamps"
N1: Final = "n1.example.com"
VALUES: Final = {
    "packages": 'packages=["tmux"]',
    "sysctl": 'sysctl_settings=["vm.swappiness = 10"]',
    "users-and-keys": 'users=[{"name": "ada", "keys": ["ssh-ed25519 AAAA ada"]}]',
}
MORE: Final = ("packages", "sysctl", "timezone", "quorum-client")
#: Of each role, a file below the machine's root.
FILES: Final = {
    "hosts-file": "etc/hosts",
    "motd": "etc/motd",
    "ntp-client": "etc/systemd/timesyncd.conf.d/nodepool-ocb.conf",
    "packages": "var/lib/nodepool-ocb/packages",
    "quorum-client": "var/lib/nodepool-ocb/quorum/members",
    "quorum-member": "var/lib/nodepool-ocb/quorum/member",
    "sysctl": "etc/sysctl.d/90-nodepool-ocb.conf",
    "timezone": "etc/timezone",
    "users-and-keys": "home/ada/.ssh/authorized_keys",
}


def test_each_shipped_role_is_in_sync_after_its_run_and_mended_by_a_refresh(
    ocb: Ocb, ask: Callable[..., Any], until: Callable[..., None], zk_settings: ZooKeeperSettings, tmp_path: Path
) -> None:
    wait = ("--wait", "--timeout", "120")
    assert ocb("barclamp", "import", str(BARCLAMPS)).exit_code == 0
    with lab(ocb, zk_settings, tmp_path, machines=1):
        for role in MORE:
            assert ocb("node", "bind", N1, role).exit_code == 0
        for role in VALUES:
            until(partial(configured, ocb, role), 60.0)
        assert ocb("node", "commit", N1, *wait).exit_code == 0
        answer = ocb("noderole", "check", "-l", "deployment:lab", *wait)
        assert answer.exit_code == 0, answer.output
        assert "0 drifted, 0 unknown" in answer.stderr

        victim = tmp_path / "victim"
        victim.write_text("precious\n")
        victim.chmod(0o600)
        ways: list[Callable[[Path], None]] = [
            lambda file: file.chmod(0o666),
            lambda file: replaced(file, victim),
            lambda file: file.with_name(f"{file.name}.new.77").symlink_to(victim),
        ]
        for number, file in enumerate(FILES.values()):
            ways[number % len(ways)](tmp_path / "machines" / "m0" / "root" / file)
        assert ocb("noderole", "check", "-l", "deployment:lab", *wait).exit_code == 10
        rows = ask("noderole", "drift")
        assert sorted(row["noderole"] for row in rows) == sorted(f"{role}@{N1}" for role in FILES)
        assert not [row for row in rows if "precious" in row["output"]]

        assert ocb("noderole", "refresh", "-l", "drift:drifted", *wait).exit_code == 0
        answer = ocb("noderole", "check", "-l", "deployment:lab", *wait)
        assert answer.exit_code == 0, answer.output
        assert victim.read_text() == "precious\n"


def configured(ocb: Ocb, role: str) -> bool:
    """A role that runs at this moment cannot be taken back until its run is over."""
    ocb("noderole", "propose", f"{role}@{N1}")
    return ocb("noderole", "set", f"{role}@{N1}", VALUES[role]).exit_code == 0


def replaced(file: Path, victim: Path) -> None:
    file.unlink()
    file.symlink_to(victim)

"""The agent and the API: registration, identity, the clock before TLS, and refusals on the console."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodepool_ocb.testing.clocks import skewed
from tests.environment.agents import ENVIRONMENT, HOST_KEY, LIBRARY, MAC, SHELLS, FileMachine
from tests.environment.provisioner import EPOCH, NODE, OWN_TOKEN, Provisioner

SCRIPTS = (
    *LIBRARY.glob("ocb-*"), *LIBRARY.glob("agent/*.sh"),
    *ENVIRONMENT.glob("etc/initramfs-tools/scripts/*"), *ENVIRONMENT.glob("etc/initramfs-tools/hooks/*"),
)  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Provisioner]:
    with Provisioner(tmp_path / "site") as site:
        yield site


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_each_script_is_read_by_each_shell(shell: tuple[str, ...]) -> None:
    assert len(SCRIPTS) >= 16
    for script in SCRIPTS:
        done = subprocess.run([*shell, "-n", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


@pytest.mark.long
def test_shellcheck_finds_no_fault() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    roots = [script for script in SCRIPTS if script.parent.name != "agent"]  # ocb-agent leads to all of its parts
    done = subprocess.run(["shellcheck", "-x", "-s", "sh", *roots], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_an_unknown_machine_registers_and_gets_its_own_token(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "discovery")
    machine.disks({"path": "/dev/sda", "size": 1 << 30, "serial": "one"})
    nic = tmp_path / "machine/sys/class/net/eth0"
    (nic / "device").mkdir(parents=True)
    (nic / "address").write_text("52:54:00:00:00:02\n")
    site.adopted_as = NODE
    started = machine.counts("jq")
    done = machine.does(
        "mode=discovery; set_clock() { :; }; rest() { :; }; hostname() { :; }; sleep() { echo slept $1; }; node=; discover"
    )
    assert f"ocb: adopted as {NODE}" in done.stdout, done.stdout + done.stderr
    assert "ocb: registered: " in done.stdout
    assert done.stdout.splitlines()[-2] == "slept 5", "its annealer logs in first"
    assert started() == 3, "for the inventory, and for each answer"
    ((_, body), *_) = site.said
    assert body["macs"] == [MAC, "52:54:00:00:00:02"]
    assert body["host_keys"] == [HOST_KEY]
    assert body["inventory"]["disks"] == [
        {
            "name": "sda",
            "size": 1 << 30,
            "serial": "one",
            "wwn": "",
            "model": "",
            "rotational": False,
            "removable": False,
        }
    ]
    assert body["inventory"]["nics"] == [{"name": "eth0", "mac": "52:54:00:00:00:02", "speed": 0, "driver": "driver"}]
    assert body["inventory"]["cpus"] > 0
    assert body["inventory"]["memory"] > 1 << 28
    assert re.fullmatch("[0-9a-f]{64}", body["secret"]), (
        "drawn by the machine: it may repeat a request without an answer"
    )
    assert site.said[1] == (f"POST /v1/registrations/{MAC}/poll", {"secret": "s3cret"})
    token = tmp_path / "machine/own/token"
    assert (token.read_text(), token.stat().st_mode & 0o777) == (OWN_TOKEN + "\n", 0o600)


def test_the_inventory_has_the_firmware_and_the_ports_of_switches(tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.disks({"path": "/dev/sda", "size": 1 << 30})
    sys = tmp_path / "machine/sys"
    for name, speed in (("eth0", "1000"), ("eth1", "-1")):
        (sys / f"class/net/{name}/device").mkdir(parents=True)
        (sys / f"class/net/{name}/address").write_text(f"52:54:00:00:00:0{name[-1]}\n")
        (sys / f"class/net/{name}/speed").write_text(f"{speed}\n")
    (sys / "class/dmi/id").mkdir(parents=True)
    (sys / "class/dmi/id/product_serial").write_text('A\x07B "1"' + "x" * 200 + "\n")
    seen = {
        "lldp": [
            {
                "interface": [
                    {"name": "eth1", "chassis": [{"name": [{"value": "sw1"}]}], "port": [{"id": [{"value": "7"}]}]}
                ]
            }
        ]
    }
    machine.program("lldpcli", f"cat <<'END'\n{json.dumps(seen)}\nEND")
    done = machine.does("inventory; ports")
    words, facts, ports = done.stdout.splitlines()
    found = json.loads(facts)
    assert re.fullmatch(r"1 \d+ CPUs, \d+ MiB, 1 disks", words), done
    assert found["nics"] == [
        {"name": "eth0", "mac": "52:54:00:00:00:00", "speed": 10**9, "driver": "driver"},
        {
            "name": "eth1",
            "mac": "52:54:00:00:00:01",
            "speed": 0,
            "driver": "driver",
            "lldp_switch": "sw1",
            "lldp_port": "7",
        },
    ]
    assert (found["serial"], found["firmware"], "vendor" in found) == ('AB "1"' + "x" * 94, "bios", False)
    assert ports == "1"
    machine.program("lldpcli", "echo no JSON")
    assert machine.does("ports").stdout == "0\n"


def test_a_second_use_of_a_boot_token_is_shown_and_leaves_evidence(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    site.refuses_identity = True
    done = machine.does("identify")
    assert done.returncode == 1
    assert "ocb: FAILED: the identity was refused: status 409: the boot token was used before" in done.stdout
    (evidence,) = [line for line in site.asked if "/agent/" in line]
    assert evidence.startswith(f"GET /agent/{MAC}/identity?reason=status+409")


def test_a_boot_without_a_token_changes_nothing_and_leaves_evidence(site: Provisioner, tmp_path: Path) -> None:
    """Such as that of a machine that starts again and again while it is installed."""
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install", **{"ocb.boot": ""})
    done = machine.does("identify")
    assert done.returncode == 1
    assert "ocb: FAILED: the kernel arguments lack ocb.boot: this boot was not ordered" in done.stdout
    [evidence] = site.asked
    assert evidence.startswith(f"GET /agent/{MAC}/identity?reason=the+kernel+arguments+lack+ocb.boot")


def test_an_identity_without_an_answer_is_asked_again_and_is_the_same(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install", **{"ocb.api": f"https://127.0.0.1:9,{site.api}"})
    site.order = {"format": "tar"}
    done = machine.does("identify; identify; ordered format")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = site.identities()
    assert first == second
    assert first["host_key"] == HOST_KEY
    assert done.stdout.splitlines()[-1] == "tar"
    assert "ocb_boot" not in (machine.folder / "run/curl").read_text()
    with_token = [file for file in machine.run_folder.iterdir() if file.is_file() and OWN_TOKEN in file.read_text()]
    assert [(file.name, file.stat().st_mode & 0o777) for file in with_token] == [("ordered", 0o600)]


def test_a_wrong_clock_is_named_where_tls_fails(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    script = "set_seconds() { :; }; IDENTITY_SECONDS=0; set_clock; identify"
    done = machine.does(script, **skewed(-400_000_000.0))
    assert done.returncode == 1
    assert "certificate is not yet valid (the clock of this machine says 20" in done.stdout
    assert any(f"/agent/{MAC}/tls?" in line for line in site.asked)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_clock_is_set_from_the_admin_node_without_ntp(
    site: Provisioner, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    machine = FileMachine(tmp_path / "machine", shell)
    machine.boots(site, "install")
    machine.program("chronyd", "exit 1")
    (machine.folder / "etc/ntp").write_text("ntp.example.com\n")
    set_to = (
        'date() { case $* in "-u +%s") echo 0 ;; *) command date "$@" ;; esac; }; set_seconds() { echo "set $1"; }; '
    )
    done = machine.does(set_to + "set_clock")
    assert "ocb: clock: NTP server ntp.example.com did not answer in 15 s" in done.stdout
    assert "ocb: clock: it was wrong by " in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("set ")]
    assert int(line.split()[1]) > 1_700_000_000


def test_the_machine_restarts_only_with_permission(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    (site.files / "image").touch()
    site.offer(site.files / "image")
    machine.has_order(site)
    site.permits_restart = False
    stands_in = "restart() { echo restarts; exit 0; }; release_target() { :; }; sleep() { command sleep 0.3; }; "
    waits = f"{stands_in} RESTART_SECONDS=1; leave"
    done = machine.does(waits)
    assert "restarts" not in done.stdout
    assert site.reports("failed")[0]["reason"] == "no permission to restart came in 1 seconds"
    site.permits_restart = True
    assert "restarts" in machine.does(waits).stdout
    epoch = machine.target / "var/lib/nodepool-ocb/epoch.0"  # of the annealer that took the installation over
    assert epoch.read_text() == f"{EPOCH + 1} - {EPOCH + 1}\n"


@pytest.mark.parametrize(("known", "asks"), [(True, 0), (False, 1)], ids=["waits", "does not"])
def test_the_last_report_is_answered_with_the_permission_by_a_server_that_waits(
    site: Provisioner, tmp_path: Path, known: bool, asks: int
) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    (site.files / "image").touch()
    site.offer(site.files / "image")
    machine.has_order(site)
    site.knows_waits = known
    stands_in = "set_clock() { :; }; identify() { :; }; prepare() { format=tar; }; install_tar() { sum=12; }; "
    done = machine.does(
        stands_in + "release_target() { echo released; }; restart() { echo restarts; }; install_machine"
    )
    assert done.stdout.splitlines()[-3:] == ["released", "ocb: restarting from the disk", "restarts"], done
    assert [report["checksum"] for report in site.reports("verified")] == ["sha256:12"]
    assert site.waited == ["wait=45"]
    assert len([path for path, _ in site.said if path.startswith("GET ")]) == asks
    assert (machine.target / "var/lib/nodepool-ocb/epoch.0").read_text() == f"{EPOCH + 1} - {EPOCH + 1}\n"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize("reason", ["plain: 1,2=3 @ /dev/sda-1_x", 'a "word", \\ and $HOME\nof `two` lines', "Grüße *"])
def test_a_reason_arrives_as_it_was_said(
    site: Provisioner, tmp_path: Path, shell: tuple[str, ...], reason: str
) -> None:
    machine = FileMachine(tmp_path / "machine", shell)
    machine.boots(site, "install")
    machine.has_order(site)
    machine.does('report failed 7 "$REASON"', REASON=reason)
    assert site.reports("failed") == [{"step": "failed", "percent": 7, "reason": reason}]


@pytest.mark.parametrize(("deed", "leaves"), [("switch off", True), ("restart", False)])
def test_a_machine_that_is_out_of_service_switches_off_and_no_other_one_starts_its_disk(
    site: Provisioner, tmp_path: Path, deed: str, leaves: bool
) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    site.is_gone = True
    asks = "RESTART_SECONDS=1; sleep() { command sleep 0.3; }; report_failure() { :; }; "
    done = machine.does(f"{asks} : >$OCB_RUN/answer; await_permission '{deed}'; echo leaves")
    assert ("leaves" in done.stdout, done.returncode) == (leaves, 0 if leaves else 1), done


@pytest.mark.parametrize("lost", [[504], [422]], ids=["a proxy that waits no 45 s", "a server that knows no wait"])
def test_a_last_report_is_repeated_without_a_wait(site: Provisioner, tmp_path: Path, lost: list[int]) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    site.lost = lost
    done = machine.does('sleep() { :; }; report verified 100 "" sha256:12 45 && echo accepted')
    assert "accepted" in done.stdout, done
    assert (len(site.reports("verified")), site.waited) == (2, ["wait=45"])


@pytest.mark.parametrize(("step", "code"), [("erased", 0), ("verified", 1)])
def test_an_erasure_whose_answer_was_lost_is_over_when_the_node_is_out_of_service(
    site: Provisioner, tmp_path: Path, step: str, code: int
) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    site.lost, site.is_gone = [504], True
    done = machine.does(f'sleep() {{ :; }}; report_failure() {{ :; }}; report {step} 100 "" "" 45')
    assert done.returncode == code, done


def test_a_refused_report_ends_the_writing(site: Provisioner, tmp_path: Path) -> None:
    machine = FileMachine(tmp_path / "machine")
    machine.boots(site, "install")
    machine.has_order(site)
    site.is_over = True
    done = machine.does("progress fetched 9; echo goes on")
    assert (done.returncode, "goes on" in done.stdout) == (1, False)
    assert "the installation is over: status 409: no installation is under way" in done.stdout

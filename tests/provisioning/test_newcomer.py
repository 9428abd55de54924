"""The commands of docs/first-machine.md, as printed and in their order: a machine that registers takes the place of QEMU."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from nodepool_ocb.model.records import Json
from tests.docs.pages import BLOCK, PROGRAM, ROOT
from tests.fixtures.commands import Ocb

PAGE: Final = ROOT / "docs/first-machine.md"
MAC: Final = "52:54:00:12:34:56"
TOKEN: Final = "ocb_00000000002a_" + "A" * 43
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEx4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
FACTS: Final = {"memory": 8 << 30, "disks": [{"name": "sda", "size": 64 << 30, "serial": "S1"}]}


def commands() -> Iterator[list[str]]:
    """The words of each command, with continued lines joined."""
    for block in BLOCK.finditer(PAGE.read_text()):
        for line in block["text"].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == [PROGRAM]:
                yield words[1:]


def test_a_newcomer_types_the_commands_of_the_page_and_a_machine_that_comes_is_to_be_installed(
    ocb: Ocb, ask: Callable[..., Json], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").symlink_to(ROOT / "etc")
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "facts.json").write_text(json.dumps(FACTS))
    typed = list(commands())
    assert len(typed) > 15
    said = ""
    for words in typed:
        if "proxy=true" in words:  # in place of the network above
            continue
        if words[:2] == ["node", "reinstall"] and "--dry-run" not in words:
            words.append("--yes")  # a person at a terminal is asked
        if words[:2] == ["registration", "list"]:  # "Switch the machine on."
            come = ("registration", "create", MAC, "--inventory", "facts.json", "--host-key", KEY)
            assert ocb(*come).exit_code == 0
        done = ocb(*[word.replace("ocb_...", TOKEN) for word in words if word != "--wait"])  # no annealer runs
        absent = words[:2] == ["installation", "show"]  # and so no installation has begun
        assert done.exit_code == (3 if absent else 10 if "--dry-run" in words else 0), (words, done.stderr)
        said += done.stdout + done.stderr
    node: Any = ask("node", "show", "n1.example.com")
    assert (node["deployment"], node["macs"], node["allow_install"]) == ("metal", [MAC], True)
    [installs] = [each for each in node["noderoles"] if each["noderole"] == "provisioner-os-install@n1.example.com"]
    assert installs["state"] in ("TODO", "BLOCKED")
    assert "/dev/sda (serial S1, 64.0 GiB) loses its data" in said
    assert node["networks"] == {"admin": ["10.1.0.20"]}

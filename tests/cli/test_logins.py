"""Logins: of nodes, which no program may take for an option, and of those who give commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nodepool_ocb.cli.kit.performing import me
from nodepool_ocb.model.records import Json

OPTION = "-oProxyCommand=x"


@pytest.mark.usefixtures("world")
def test_a_login_that_a_program_would_take_for_an_option_is_refused_everywhere(
    ocb: Callable[..., Result], ask: Callable[..., Json], tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text(f"site: 1\nnodes: {{n1.example.com: {{user: {OPTION}}}}}\n")
    (tmp_path / "nodes.csv").write_text(f"fqdn,user\nn1.example.com,{OPTION}\n")
    for line in (
        f"node set n1.example.com user={OPTION}",
        f"node create n9.example.com --user={OPTION}",
        f"apply -f {tmp_path / 'site.yaml'}",
        f"node import {tmp_path / 'nodes.csv'} --update",
    ):
        answer = ocb(*line.split())
        assert (answer.exit_code != 0, "no login" in answer.stderr) == (True, True), (line, answer.output)
    assert ask("node", "show", "n1.example.com")["user"] == "root"


@pytest.mark.parametrize(
    ("user", "caller", "noted"),
    [("root", "ann", "ann"), ("root", None, "root"), ("ann", "bob", "ann"), ("root", "", "root")],
)
def test_under_sudo_the_user_who_called_it_is_noted(
    user: str, caller: str | None, noted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", user)
    if caller is None:
        monkeypatch.delenv("SUDO_USER", raising=False)
    else:
        monkeypatch.setenv("SUDO_USER", caller)
    assert me() == noted

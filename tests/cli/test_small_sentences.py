"""Refusals that name the way on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from nodepool_ocb.documents import document
from nodepool_ocb.errors import SAID, Invalid
from tests.fixtures.commands import Ocb


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("history --since yesterday", "or as a duration: 2h for the last two hours"),
        ("node list -l tag=web", "node tag=web does not exist; did you mean `tag:web`?"),
        ("deployment create lab", "deployment lab exists already; see: nodepool-ocb deployment show lab"),
        ("node show n01.example.com", "did you mean `n1.example.com`?"),
        ("image build jammy", "a builder makes those of its nodepool.yaml known; first: systemctl start"),
        ("role delete midle", "role midle does not exist; did you mean `middle`?"),
        ("barclamp delete nix", "barclamp nix does not exist"),
        ("node create n9.example.com --address 127.0.0.1:ssh", "'ssh' is no port; write a number from 1 to 65535"),
        ("man {list}/x", "list.yaml/x cannot be written: Not a directory; give another DIRECTORY"),
        ("rollout check {list}", "and is a list; for a list of tasks see: nodepool-ocb tasks plan"),
        ("noderole unbind top@n1.example.com", "this would delete top@n1.example.com with its attributes and history"),
        ("apply -f {empty}", "no document is in {empty}; to print one: nodepool-ocb export"),
        (
            "noderole set middle@n1.example.com middle-size=[2",
            "column 3 (char 2)); close each bracket, quote each text",
        ),
        ("noderole set middle@n1.example.com middle-size=big", "text needs quotes: 'middle-size=\"big\"'"),
    ],
)
def test_a_refusal_names_the_way_on(ocb: Ocb, line: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- {id: a}\n")
    (tmp_path / "empty.yaml").touch()
    files = {"list": tmp_path / "list.yaml", "empty": tmp_path / "empty.yaml"}
    answer = ocb(*line.format(**files).split())
    assert answer.exit_code != 0
    assert sentence.format(**files) in answer.stderr


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "line", ["noderole set middle@n1.example.com middle-sice=2", "deployment set lab middle middle-sice=2"]
)
def test_a_slip_is_named_before_the_way_to_change_what_is_committed(ocb: Ocb, line: str) -> None:
    assert ocb("deployment", "commit", "lab").exit_code == 0
    answer = ocb(*line.split())
    assert "middle-sice" in answer.stderr
    assert "propose" not in answer.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")
def test_a_file_that_may_not_be_read_is_named_with_its_group() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        file = Path(folder, "nodepool-ocb.yaml")
        file.write_text("{}\n")
        file.chmod(0o600)
        Path(folder).chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(Invalid) as refused:
                document.read(file)
        finally:
            os.seteuid(0)
    assert str(refused.value).endswith(
        "Permission denied; let this user read it: its owner is root, its group root, its mode 600"
    )


def test_the_warnings_of_a_barclamp_are_bounded(ocb: Ocb, tmp_path: Path) -> None:
    roles = ", ".join(f"{{name: r{number}, jig: noop, requires: [none{number}]}}" for number in range(SAID + 5))
    (tmp_path / "b.yml").write_text(f"barclamp: {{name: b, version: 1}}\nroles: [{roles}]\n")
    for verb in ("check", "import"):
        warned = [
            line for line in ocb("barclamp", verb, str(tmp_path / "b.yml")).stderr.splitlines() if "warning: " in line
        ]
        assert len(warned) == SAID + 1
        assert warned[-1] == "warning: ... and 5 more warnings"

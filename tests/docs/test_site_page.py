"""docs/site.md works as printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.docs.pages import EXIT_CODE, PROGRAM, ROOT, Fate, blocks

NODE = re.compile(r"(?m)^delete +node +(web\d)\.example\.com")


def test_the_page_of_site_files_works_as_printed(
    ocb: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ocb("barclamp", "import", str(ROOT / "etc/barclamps")).exit_code == 0
    ran = 0
    for block in blocks(ROOT / "docs/site.md"):
        if block.fate is Fate.FILE:
            Path(block.word).write_text(block.text)
        for line in block.text.splitlines() if block.fate is Fate.RUN else ():
            words = shlex.split(line.partition("#")[0].partition(">")[0])
            expected = EXIT_CODE.search(line)
            result = ocb(*words[1:])
            assert (words[0], result.exit_code) == (PROGRAM, int(expected[1]) if expected else 0), result.output
            ran += 1
    assert ran == 6
    pruned = ocb("apply", "-f", "site.yaml", "--prune", "--yes")
    assert (pruned.exit_code, sorted(NODE.findall(pruned.stdout))) == (0, ["web3", "web4"]), "those of the table"
    assert "nothing to do" in ocb("apply", "-f", "site.yaml", "--prune", "--yes").output
    assert ocb("node", "import", "nodes.csv", "--deployment", "lab").exit_code == 0

    assert ocb("node", "list", "-o", "name").stdout.split() == [f"web{n}.example.com" for n in range(1, 5)]

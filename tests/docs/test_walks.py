"""The figures of a walk: the modules that a program runs through (tools/walk)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

MODULES = {
    "nodepool_ocb/__init__.py": "",
    "nodepool_ocb/cli.py": "from nodepool_ocb.rooms import lower\ndef back(): pass\ndef main(): lower.asked(); idle()\n"
    "def idle(): pass\n",
    "nodepool_ocb/rooms/__init__.py": "",
    "nodepool_ocb/rooms/lower.py": "import json\nfrom nodepool_ocb.rooms import lowest\n"
    "def asked():\n    from nodepool_ocb import cli\n    json.loads('[1]', parse_int=lowest.one); cli.back()\n",
    "nodepool_ocb/rooms/lowest.py": "def one(text): return 1\ndef unused(): pass\n",
    "nodepool_ocb/rooms/never.py": "def called(): pass\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A product of four modules, two of which call each other; one is reached through a library."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_walk_counts_the_entered_modules_their_folders_and_the_pairs_that_call_each_other(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    from walks.figures import calls, figures

    environment = {
        "PYTHONPATH": f"{TOOLS / 'walks' / 'hook'}:{TOOLS}:{tree}",
        "OCB_WALK": str(tmp_path / "trace"),
        "OCB_WALK_TREE": str(tree),
    }
    program = "from nodepool_ocb.rooms import never\nfrom nodepool_ocb import cli\ncli.main()"
    subprocess.run([sys.executable, "-c", program], env=os.environ | environment, cwd=tree, check=True, timeout=60)
    found = figures(calls(tmp_path, "trace"))
    assert found.modules == ("cli.py", "rooms/lower.py", "rooms/lowest.py"), "neither the idle nor the imported ones"
    assert found.folders == ("cli.py", "rooms")
    assert found.two_way == (("cli.py", "rooms/lower.py"),)

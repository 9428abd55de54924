"""What the checkout holds: every folder of the product is installed, and the top has no file that a test left there.

The editable install of tools/setup would hide that a folder is missing from setup.cfg.
"""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = {
    ".ci", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "CRITIQUES.md", "README.md", "annealer",
    "builder", "conftest.py", "docs", "etc", "launcher", "nodepool_ocb", "pyproject.toml", "ruff.toml", "schemas",
    "setup.cfg", "tests", "tools",
}  # fmt: skip


def test_every_folder_of_the_product_is_installed() -> None:
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    roots = dict(line.split(" = ") for line in options["options"]["package_dir"].split("\n") if line)
    folders = {
        ".".join([name, *file.parent.relative_to(ROOT / folder).parts])
        for name, folder in roots.items()
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert set(options["options"]["packages"].split()) == folders


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no checkout of git")
def test_the_top_of_the_checkout_has_no_file_that_a_test_left() -> None:
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {file.split("/")[0] for file in files.split("\0") if file} == TOP

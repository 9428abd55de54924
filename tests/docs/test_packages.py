"""``pip install .`` installs every folder of the product; the editable install of tools/setup would hide that one lacks."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).parents[2]


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

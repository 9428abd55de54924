"""axe-core, which npm fetches: the serious faults of a view for people who see, hear or move with difficulty."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.page.browser import Browser

PROGRAM = "npm"
RUN = "const done = arguments[0]; axe.run().then(found => done(found.violations))"


def text(folder: Path) -> str:
    """The script of axe-core."""
    subprocess.run(
        [PROGRAM, "pack", "axe-core@4", "--silent"], cwd=folder, check=True, timeout=120, capture_output=True
    )
    (archive,) = folder.glob("axe-core-*.tgz")
    shutil.unpack_archive(archive, folder)
    return (folder / "package/axe.min.js").read_text()


def serious(browser: Browser, script: str, views: tuple[str, ...]) -> dict[str, list[str]]:
    """The elements with serious faults, by view and fault."""
    found = {}
    for view in views:
        browser.go(view)
        browser.one("main table, main .grid, main .card")
        browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": script})  # past the page's own policy
        for fault in browser.driver.execute_async_script(RUN):
            if fault["impact"] in ("serious", "critical"):
                found[f"{view} {fault['id']}"] = [str(each["html"]) for each in fault["nodes"]][:3]
    return found

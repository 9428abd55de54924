"""Files that a person or a configuration names are read by ``documents.files`` alone, so that no FIFO holds a daemon."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

#: Modules that open files themselves: what they write, what the kernel or the package gives, what only they make.
OWN: Final = {
    "annealer/nodepool_ocb_annealer/consoles/captures.py": "the log of a run, which it continues",
    "annealer/nodepool_ocb_annealer/main.py": "the kernel's boot id",
    "annealer/nodepool_ocb_annealer/runs/foreign.py": "the log of a run, which it writes",
    "builder/nodepool_ocb_builder/checksums.py": "an image that was built, which has no bound",
    "builder/nodepool_ocb_builder/image_directory.py": "the lock and the logs of its own folder",
    "builder/nodepool_ocb_builder/sandbox/isolation.py": "the log of a build, which it writes",
    "builder/nodepool_ocb_builder/sandbox/leftovers.py": "the kernel's files; it starts without packages",
    "builder/nodepool_ocb_builder/sandbox/supervisor.py": "the log of a build; it starts without packages",
    "nodepool_ocb/api/oidc/people.py": "the secret of the client, bounded, with its mode",
    "nodepool_ocb/api/page/files.py": "files of the package",
    "nodepool_ocb/providers/adminnode/docroot.py": "a file of the package",
    "nodepool_ocb/bounded/worker.py": "the kernel's figures",
    "nodepool_ocb/cli/kit/plans.py": "a new file, which it writes",
    "nodepool_ocb/cli/printing/streams.py": "/dev/null, for output",
    "nodepool_ocb/daemon/belonging.py": "the file of the cluster's id, which it writes",
    "nodepool_ocb/documents/files.py": "the reader",
    "nodepool_ocb/documents/schema.py": "schemas of the package",
    "nodepool_ocb/http/logs.py": "logs below one folder, without links and without waiting",
    "nodepool_ocb/jigs/output.py": "the log of a run, which it writes",
    "nodepool_ocb/jigs/ssh/boots.py": "a program of the package",
    "nodepool_ocb/jigs/ssh/protocol.py": "programs of the package",
    "nodepool_ocb/jigs/tasks/push.py": "pipes of its own",
    "nodepool_ocb/jigs/tasks/task.py": "programs of the package",
    "nodepool_ocb/leasing/guardian.py": "the kernel's figures; it starts without packages",
    "nodepool_ocb/providers/containers/body.py": "programs of the package",
    "nodepool_ocb/providers/fake/cloud.py": "the lock and the log of its own folder, which it writes",
    "nodepool_ocb/providers/local.py": "images, which it writes",
    "nodepool_ocb/providers/transfer.py": "an image that was built, which has no bound",
    "nodepool_ocb/remote/tokens.py": "the tokens of this user, which it writes",
    "nodepool_ocb/secrecy/keyring.py": "the key file, which it writes",
}
#: Each name of a call in ``opens``: a module without any of them need not be parsed.
MAY_OPEN: Final = re.compile("open|read_text|read_bytes|File")


def opens(tree: ast.AST) -> Iterator[str]:
    """The calls of a module that open a file."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield "open"
            case ast.Call(func=ast.Attribute(attr="read_text" | "read_bytes" as name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os" | "io"), attr="open" | "fdopen" as name)):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="open"), args=[ast.Constant(value="r" | "rb" | "ab" | "wb" | "w"), *_]
            ):
                yield "open"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr="File")):
                yield "click.File"


def test_files_are_opened_by_the_reader_or_by_those_who_own_them() -> None:
    found = {
        str(file.relative_to(ROOT))
        for top in ("nodepool_ocb", "annealer", "builder", "launcher")
        for file in (ROOT / top).rglob("*.py")
        if "testing" not in file.parts and MAY_OPEN.search(text := file.read_text()) and any(opens(ast.parse(text)))
    }
    assert found == set(OWN), "read it with documents.files, or say in OWN why not"

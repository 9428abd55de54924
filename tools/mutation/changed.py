"""One module with a mutant in it, in place of the module itself, for every Python process that is told of it.

``tools/mutation/startup/sitecustomize.py`` looks for ``MUTANT`` in the environment when Python starts.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Final

MUTANT: Final = "OCB_MUTANT"  # in the environment: a file with the arguments of Changed


class Changed:
    """Finds one module, changed."""

    def __init__(self, path: str, name: str, source: str) -> None:
        self._path, self._name, self._source = path, name, source

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        loader = _Loader(name, self._path)
        loader.source = self._source
        return spec_from_file_location(name, self._path, loader=loader)


class _Loader(SourceFileLoader):
    source: str

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 (the name is the loader's own)
        return compile(self.source, self.path, "exec", dont_inherit=True)


def change(root: Path, file: str, source: str, note: Path) -> None:
    """From now on, imports in this process and in those that it starts give the module of this file with this source."""
    name = file.removeprefix("annealer/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    arguments = (str(root / file), name, source)
    note.write_text(json.dumps(arguments))
    os.environ[MUTANT] = str(note)
    sys.meta_path.insert(0, Changed(*arguments))


def started() -> None:
    """Follow the environment of a new process."""
    if note := os.environ.get(MUTANT):
        sys.meta_path.insert(0, Changed(*json.loads(Path(note).read_text())))

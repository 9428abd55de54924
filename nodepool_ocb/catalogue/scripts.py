"""The shell script of a role: in its barclamp, in a file beside it, or in OpenCrowbar's layout of several files.

OpenCrowbar keeps ``script/roles/<role>/*.sh`` beside the barclamp's directory. Several files become one script in which
each runs in a subshell, in the order of their names, until one fails. No link is followed,
of a file or of a folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid

BYTES: Final = 128 << 10  #: of a whole script; a role must fit into a znode

_FILE = re.compile(r"[\w.-]+(/[\w.-]+)*\.sh|[\w.-]+(/[\w.-]+)+")


def find(folder: Path, role: str, script: str | None) -> str | None:
    """The text of a role's script; None if it has none.

    ``script`` is the value in the barclamp in ``folder``: text to run, or the name of a file. Raises Invalid if a file cannot be
    read, is not beside the barclamp or is not UTF-8, and if the script is longer than ``BYTES``.
    """
    if script is not None and _FILE.fullmatch(script.strip()):
        text = _text(folder, script.strip())
    elif script is not None:
        text = script
    else:
        below = f"script/roles/{role}"
        parts = ((base, sorted(each.name for each in (base / below).glob("*.sh"))) for base in (folder, folder.parent))
        base, names = next((each for each in parts if each[1]), (folder, []))
        text = joined(_whole(base, [f"{below}/{name}" for name in names]))
    if len(text.encode()) > BYTES:
        raise Invalid(f"the script is longer than {BYTES >> 10} KiB; let it fetch the rest itself")
    return text or None


def joined(parts: list[str]) -> str:
    """Several scripts as one, which ends with the first failure; a single one stays as it is."""
    if len(parts) <= 1:
        return "".join(parts)
    first = re.match(r"#!.*\n", parts[0])
    # The exit code is taken on a line of its own: `( ... ) || exit` would switch off `set -e` inside.
    each = (f"(\n{part.rstrip()}\n)\nocb_code=$?\n[ $ocb_code -eq 0 ] || exit $ocb_code\n" for part in parts)
    return (first[0] if first else "#!/bin/sh\n") + "".join(each)


def _whole(base: Path, parts: list[str]) -> list[str]:
    """The texts of these files; reading stops when they exceed the size of a script."""
    texts: list[str] = []
    for name in parts:
        texts.append(_text(base, name))
        if sum(map(len, texts)) > BYTES:
            break  # find() raises the error
    return texts


def _text(folder: Path, name: str) -> str:
    if ".." in name.split("/"):
        raise Invalid(f"file {name} is not beside the barclamp; move it there")
    try:
        return files.read_below(folder, name, BYTES).decode()
    except OSError as error:
        raise Invalid(f"file {folder / name} cannot be read: {error.strerror}; check the file and its mode") from error
    except UnicodeDecodeError as error:
        raise Invalid(f"file {folder / name} is not UTF-8; save it as UTF-8") from error

"""The names of the roles and of the virtual node that the tasks of a deployment become. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from nodepool_ocb.model.ranges import is_name

LONGEST: Final = 63
_DIGITS: Final = 8


def role(deployment: str, task: str) -> str:
    """The role of a task: both names, where a role may be named so; else as much of them as is legible, and a digest.

    >>> role("lab", "netconfig"), role("lab", "Upload_Keys"), len(role("l" * 40, "t" * 40))
    ('lab.netconfig', 'lab.upload_keys-add2b7de', 63)
    """
    name = f"{deployment}.{task}"
    if is_name(name):
        return name
    from hashlib import sha256  # here, so that the help of a noun does not load it

    digest = sha256(name.encode()).hexdigest()[:_DIGITS]
    legible = re.sub(r"[^a-z0-9_.-]", "-", name.lower())[: LONGEST - _DIGITS - 1]
    return f"{legible}-{digest}"


def virtual(deployment: str, taken: Collection[str] = ()) -> str:
    """The virtual node of a deployment's stages and barriers; ``taken``: names of nodes that it may not have.

    >>> virtual("lab"), virtual("lab_1"), virtual("lab-1", ["tasks-lab-1.internal"])
    ('tasks-lab.internal', 'tasks-lab-1.internal', 'tasks-lab-1-2.internal')
    """
    label = re.sub(r"[^a-z0-9]+", "-", f"tasks-{deployment}")[:50].strip("-")
    names = (f"{label}{suffix}.internal" for suffix in ("", *(f"-{number}" for number in range(2, 1000))))
    return next(name for name in names if name not in taken)

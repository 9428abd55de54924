"""Which files and directories of the annealer's host a task names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodepool_ocb.model.records import Json
from nodepool_ocb.tasks.tasklist import TaskKind


def sources(kind: TaskKind, parameters: Mapping[str, Json]) -> Iterator[str]:
    """Those that a task of this kind reads; a source that its machine fetches from an rsync daemon is none.

    >>> list(sources(TaskKind.COPY_FILES, {"files": [{"src": "/a", "dst": "/b"}, "odd"]}))
    ['/a']
    >>> list(sources(TaskKind.SYNC, {"src": "/a/"})), list(sources(TaskKind.SYNC, {"src": "rsync://h/a/"}))
    (['/a/'], [])
    """
    if kind is TaskKind.COPY_FILES:
        listed = parameters.get("files")
        pairs = listed if isinstance(listed, list | tuple) else ()
        yield from (src for pair in pairs if isinstance(pair, Mapping) and isinstance(src := pair.get("src"), str))
    if kind is TaskKind.SYNC and isinstance(src := parameters.get("src"), str) and not fetched(src):
        yield src


def fetched(src: str) -> bool:
    """Whether the machine itself fetches it, from an rsync daemon.

    >>> fetched("rsync://host/module/"), fetched("host::module"), fetched("/etc/a::b")
    (True, True, False)
    """
    return src.startswith("rsync://") or "::" in src.partition("/")[0]

"""Jig task-upload: texts become files on the machine, each whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from nodepool_ocb.jigs.tasks.files import File, FileParameters, script
from nodepool_ocb.jigs.tasks.task import OrderedTask, TaskJig, TaskRefused
from nodepool_ocb.tasks.tasklist import TaskKind


class UploadParameters(FileParameters, frozen=True):
    """The parameters of upload_file."""

    path: str
    data: str


class UploadedFile(msgspec.Struct, frozen=True):
    """A file of upload_files; a field that is None is as in the parameters."""

    dst: str
    data: str
    permissions: str | int | None = None
    dir_permissions: str | int | None = None
    user: str | None = None
    group: str | None = None


class Uploads(FileParameters, frozen=True):
    """The parameters of upload_files: ``files`` for every node, ``nodes`` for single nodes by their uid."""

    files: tuple[UploadedFile, ...] = ()
    nodes: Mapping[str, Any] = {}  # uid → files, looked at for this node alone


class UploadJig(TaskJig):
    name = "task-upload"

    def text(self, task: OrderedTask) -> str:
        """Both kinds are done here; ``path`` tells upload_file from upload_files."""
        if "path" in task.parameters:
            upload = task.shaped(TaskKind.UPLOAD_FILE, UploadParameters)
            return script([upload.file(upload.path, upload.data.encode())], task.noop)
        uploads = task.shaped(TaskKind.UPLOAD_FILES, Uploads)
        return script([_file(uploads, entry) for entry in _entries(uploads, task.uid)], task.noop)


def _file(uploads: Uploads, entry: UploadedFile) -> File:
    own = {name: value for name, value in msgspec.structs.asdict(entry).items() if value is not None}
    dst, data = own.pop("dst"), own.pop("data")
    return msgspec.structs.replace(uploads, **own).file(dst, data.encode())


def _entries(uploads: Uploads, uid: str) -> Iterator[UploadedFile]:
    yield from uploads.files
    try:
        yield from msgspec.convert(uploads.nodes.get(uid, ()), tuple[UploadedFile, ...], strict=False)
    except msgspec.ValidationError as wrong:
        raise TaskRefused(
            f"its parameters are wrong: the files of node {uid}: {wrong}; correct them in the task list"
        ) from wrong

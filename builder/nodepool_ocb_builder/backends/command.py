"""Backend ``command``: any program makes the image; its environment describes the task.

NODEPOOL_OCB_IMAGE (name), _BUILD (id), _FORMATS (separated by blanks), _OUTPUT_<FORMAT> (for each format the file that it
must make; QCOW2, TAR ...). Also _MANIFEST (a folder that it may make) and _WORK (its working directory, which is removed).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from nodepool_ocb.documents.schema import faults_in_value
from nodepool_ocb.model.records import Json
from nodepool_ocb_builder.backends.backend import BuildTask, Command

SCHEMA: Final[Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["argv"],
    "properties": {
        "argv": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "sudo": {"type": "boolean"},
    },
}


class CommandBackend:
    """Runs option ``argv``; with ``sudo: true`` also as an ordinary user outside of any user namespace."""

    formats = None
    needs: tuple[str, ...] = ()

    def faults(self, options: Mapping[str, Json]) -> list[str]:
        return faults_in_value(SCHEMA, dict(options))

    def command(self, task: BuildTask) -> Command:
        options: Mapping[str, Any] = task.image.options
        image = task.image
        variables = {
            "IMAGE": image.name,
            "BUILD": task.build,
            "FORMATS": " ".join(task.outputs),
            "WORK": str(task.work),
            "MANIFEST": str(task.manifest),
            **{output_name(format): str(file) for format, file in task.outputs.items()},
        }
        env = {**image.env_vars, **{f"NODEPOOL_OCB_{name}": value for name, value in variables.items()}}
        return Command(
            argv=tuple(options["argv"]),
            env=env,
            cwd=task.work,
            calls_setuid=bool(options.get("sudo", False)),
        )


def output_name(format: str) -> str:
    """The end of the variable that names a format's file.

    >>> output_name("qcow2"), output_name("tar.gz")
    ('OUTPUT_QCOW2', 'OUTPUT_TAR_GZ')
    """
    return "OUTPUT_" + re.sub(r"\W", "_", format.upper(), flags=re.ASCII)

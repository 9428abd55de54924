"""QEMU's machine protocol: commands to a running virtual machine over its socket. Every call has a deadline."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ANSWER_SECONDS: Final = 30.0


class QmpError(Exception):
    """QEMU refused a command; the text is its description."""


def execute(path: Path, command: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """The answer to one command, on a connection of its own. Raises QmpError, OSError or TimeoutError."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(ANSWER_SECONDS)
        channel.connect(str(path))
        with channel.makefile("rw", encoding="utf-8") as stream:
            stream.readline()  # the greeting
            _asked(stream, "qmp_capabilities", None)
            return _asked(stream, command, arguments)


def _asked(stream: Any, command: str, arguments: Mapping[str, Any] | None) -> Any:
    stream.write(json.dumps({"execute": command} | ({"arguments": dict(arguments)} if arguments else {})) + "\n")
    stream.flush()
    while line := stream.readline():
        answer = json.loads(line)
        if "error" in answer:
            raise QmpError(f"{command}: {answer['error'].get('desc')}")
        if "return" in answer:
            return answer["return"]
    raise ConnectionResetError(f"QEMU closed its socket before it answered {command}")

"""A short question to a machine, and its answer."""

from __future__ import annotations

import time
from typing import Final

from nodepool_ocb.jigs.ssh.link import ENDED, Broken, Link, shut

ANSWER_BYTES: Final = 1 << 16


def ask(link: Link, command: str, timeout_seconds: float, question: bytes = b"") -> str:
    """All that the command, which reads ``question``, prints until it ends; the output of a login before it, too.

    Raises Broken or OwnFault where it does not end in this time, or prints more than an answer may have.
    """
    channel = link.channel(command, timeout_seconds)
    deadline, said = time.monotonic() + timeout_seconds, b""
    try:
        channel.sendall(question)
        channel.shutdown_write()
        while len(said) <= ANSWER_BYTES and (left := deadline - time.monotonic()) > 0:
            channel.settimeout(left)
            data = channel.recv(ANSWER_BYTES)
            if not data:
                link.heard()
                return said.decode("utf-8", "replace")
            said += data
    except ENDED as error:
        raise link.broken(f"no answer: {link.fault or error or 'its time is up'}", error) from error
    finally:
        shut(channel)
    raise Broken("no answer in time, or one that is too long")

"""A probe of what is no honest machine says why it is not alive."""

from __future__ import annotations

from pathlib import Path

import impostors
import msgspec
import pytest
from impostors import Impostor, Talk

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.probe import Prober, Unreachable
from nodepool_ocb.model import Node
from nodepool_ocb.testing.machines import Farm


@pytest.mark.parametrize(
    ("talk", "said"),
    [
        (impostors.ssh_answers(impostors.more_than_the_window), "bytes that a channel takes unread"),
        (impostors.ssh_answers(impostors.hangs_up), "the command true ended without an exit code"),
        (impostors.ssh_answers(impostors.exits(3)), "the command true ended with exit code 3"),
        (impostors.ssh(), "the command true did not end within"),
    ],
    ids=["more than the window", "hangs up", "exit code", "mute"],
)
def test_a_probe_says_what_was_wrong_with_the_answer(tmp_path: Path, talk: Talk, said: str) -> None:
    with Farm(0, tmp_path) as farm, Impostor(talk) as impostor:
        prober = Prober(msgspec.convert(farm.settings() | {"connect_timeout_seconds": 3.0}, SshSettings))
        node = Node(addresses=(impostor.address,), host_keys=(impostors.HOST_KEY,))
        answer = prober.probe("impostor.example.com", node)
        prober.close()
    assert isinstance(answer, Unreachable)
    assert (answer.step, said in answer.reason) == ("run", True), answer.reason

"""A probe of what is no honest machine says why it is not alive."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nodepool_ocb.config import SshSettings
from nodepool_ocb.jigs.ssh import link
from nodepool_ocb.jigs.ssh.probe import Prober, Unreachable
from nodepool_ocb.model.records import Node
from nodepool_ocb.testing.machines import Farm
from tests.journeys.hostile import impostors
from tests.journeys.hostile.impostors import Impostor, Talk


@pytest.mark.parametrize(
    ("talk", "said"),
    [
        (impostors.ssh_answers(impostors.more_than_the_window), "bytes that a channel takes unread"),
        (impostors.ssh_answers(impostors.hangs_up), "the command printf ended without an exit code"),
        (impostors.ssh_answers(impostors.exits(3)), "the command printf ended with exit code 3"),
        (impostors.ssh_answers(impostors.exits(0)), "the login does not run"),
        (impostors.ssh_answers(impostors.output_without_end), "the command printf did not end within"),
        (impostors.ssh(), "the command printf did not end within"),
        (impostors.ssh_answers(impostors.channels_that_are_no_text), "it sends no valid SSH"),
    ],
    ids=["more than the window", "hangs up", "exit code", "says nothing", "output without end", "mute", "no text"],
)
def test_a_probe_says_what_was_wrong_with_the_answer(tmp_path: Path, talk: Talk, said: str) -> None:
    answer = probed(tmp_path, talk)
    assert (answer.step, said in answer.reason) == ("run", True), answer.reason


def test_names_that_are_no_text_are_the_machines_fault_and_not_this_hosts(tmp_path: Path) -> None:
    answer = probed(tmp_path, impostors.says(impostors.KEYS_THAT_ARE_NO_TEXT))
    assert (answer.step, "it sends no valid SSH" in answer.reason) == ("connect", True), answer.reason


def test_what_was_wrong_before_ssh_began_is_a_sentence_of_its_own(tmp_path: Path) -> None:
    answer = probed(tmp_path, impostors.floods(b"x" * 65536))
    assert "protocol banner: it sends more than 8192 bytes before SSH begins" in answer.reason


def test_packets_that_hold_nothing_are_bounded_as_all_that_nobody_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "UNASKED_BYTES", 1 << 14)
    answer = probed(tmp_path, impostors.ssh_answers(impostors.packets_that_hold_nothing))
    assert (answer.step, "that were not requested" in answer.reason) == ("run", True), answer.reason


def probed(folder: Path, talk: Talk) -> Unreachable:
    with Farm(0, folder) as farm, Impostor(talk) as impostor:
        prober = Prober(msgspec.convert(farm.settings() | {"connect_timeout_seconds": 3.0}, SshSettings))
        node = Node(addresses=(impostor.address,), host_keys=(impostors.HOST_KEY,))
        answer = prober.probe("impostor.example.com", node)
        prober.close()
    assert isinstance(answer, Unreachable)
    return answer

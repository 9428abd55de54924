"""What the runner says is understood in whatever pieces it comes."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.jigs.ssh.protocol import (
    BOOTSTRAP,
    EXIT_CODE,
    Data,
    Ear,
    Frame,
    OutOfRange,
    command,
    installer,
    number,
)

MARK = b"\nf00d "
UUID = "01234567-89ab-cdef-0123-456789abcdef"
OUTPUT = st.lists(st.sampled_from([b"\n", b"\nf", b"\nf00", b"\nf00d", b"x", b"\0", b"f00d ", b"\n\n"])).map(b"".join)


def heard(pieces: list[bytes]) -> list[Any]:
    """Frames, and data joined."""
    found: list[Any] = []
    ear = Ear("f00d")
    for piece in pieces:
        for one in ear.hear(piece):
            if isinstance(one, Data) and found and isinstance(found[-1], Data):
                found[-1] = Data(one.word, found[-1].data + one.data)
            else:
                found.append(one)
    return found


@given(OUTPUT.filter(lambda data: MARK not in data + b"\n"), st.data())
def test_output_is_told_from_frames_however_it_is_cut(output: bytes, data: st.DataObject) -> None:
    said = MARK + b"STARTED r\n" + MARK + b"OUTPUT 0\n" + output + MARK + b"DONE started finished 0 r -\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=5)))
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    expected = [Frame("STARTED", ("r",)), Frame("OUTPUT", ("0",))]
    expected += [Data("OUTPUT", output)] if output else []
    assert heard(pieces) == [*expected, Frame("DONE", ("started", "finished", "0", "r", "-"))]


@given(OUTPUT, st.data())
def test_what_a_script_prints_is_no_frame_though_it_knows_the_token(output: bytes, data: st.DataObject) -> None:
    output = output + MARK + b"DONE started finished 0 r -\n" + output
    said = (
        MARK
        + b"OUTPUT 0 %d\n" % len(output)
        + output
        + MARK
        + b"WRITTEN 3\nt 1"
        + MARK
        + b"DONE started finished 7 r -\n"
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=5)))
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    first = [Frame("OUTPUT", ("0", str(len(output)))), Data("OUTPUT", output)]
    then = [Frame("WRITTEN", ("3",)), Data("WRITTEN", b"t 1"), Frame("DONE", ("started", "finished", "7", "r", "-"))]
    assert heard(pieces) == first + then


def test_what_was_announced_and_did_not_come_is_owed() -> None:
    ear = Ear("f00d")
    list(ear.hear(MARK + b"OUTPUT 0 9\nx" + MARK))
    assert ear.owed == 9 - 1 - len(MARK)


@pytest.mark.parametrize("text", ["", "-1", "256", "99999999999", "1e3", "\u00b2", "x" * 5000, "9" * 5000])
def test_a_number_has_a_range(text: str) -> None:
    with pytest.raises(OutOfRange):
        number(text, EXIT_CODE)


@pytest.mark.parametrize("frame", ["OUTPUT 0 67108865", "OUTPUT 0 -1", "WRITTEN 1048577", "WRITTEN x"])
def test_a_length_has_a_range(frame: str) -> None:
    with pytest.raises(OutOfRange):
        list(Ear("f00d").hear(MARK + frame.encode() + b"\n"))


@given(OUTPUT, st.integers(1, 5))
def test_all_that_is_followed_is_data_and_comes_at_once(output: bytes, size: int) -> None:
    said = MARK + b"FOLLOWING 3\n" + output
    pieces = [said[place : place + size] for place in range(0, len(said), size)]
    assert heard(pieces) == [Frame("FOLLOWING", ("3",))] + ([Data("FOLLOWING", output)] if output else [])


def test_the_first_command_is_one_line_and_its_data_are_arguments() -> None:
    line = command("~/it's here", 1.5)
    assert "\n" not in line
    assert shlex.split(line)[-3:] == ["~/it's here", installer()[1], "1"]
    assert installer()[1] not in BOOTSTRAP


@given(
    st.lists(st.sampled_from(["\n", "\n1", "0f", "-", " READ", f"\n{UUID}", "motd\n"])).map("".join),
    st.integers(1, 50),
)
def test_the_first_frame_tells_the_token_and_all_before_it_is_noise(noise: str, size: int) -> None:
    said = f"{noise}\n{UUID} READY\n\n{UUID} DONE x\n"
    ear = Ear()
    found = [each for place in range(0, len(said), size) for each in ear.hear(said[place : place + size].encode())]
    assert [each for each in found if isinstance(each, Frame)] == [Frame("READY"), Frame("DONE", ("x",))]
    assert b"".join(each.data for each in found if isinstance(each, Data)) == noise.encode()
    assert ear.token == UUID


def test_the_last_words_of_a_machine_without_a_runner_are_not_held_back() -> None:
    assert list(Ear().hear(b"login: no such\nshell\n")) == [Data("", b"login: no such\nshell")]

"""What the runner says is understood in whatever pieces it comes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.jigs.ssh.protocol import BOOTSTRAP, Data, Ear, Frame, installer

MARK = b"\nf00d "
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


@given(OUTPUT, st.integers(1, 5))
def test_all_that_is_followed_is_data_and_comes_at_once(output: bytes, size: int) -> None:
    said = MARK + b"FOLLOWING 3\n" + output
    pieces = [said[place : place + size] for place in range(0, len(said), size)]
    assert heard(pieces) == [Frame("FOLLOWING", ("3",))] + ([Data("FOLLOWING", output)] if output else [])


def test_no_data_is_in_a_command() -> None:
    assert installer()[1] not in BOOTSTRAP
    assert "\n" not in BOOTSTRAP

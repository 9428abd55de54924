"""The requests of a machine that boots: each place at which it may stop has a sentence of its own."""

from __future__ import annotations

import pytest

from nodepool_ocb.provisioning.evidence.requests import BootRequests, heard, parsed, sentence

NONCE, MAC = "ab" * 16, "52:54:00:00:00:01"
DAY = "27/Nov/2026:15:00:0"
SCRIPT = f"10.1.0.20 {DAY}2 /boot/{NONCE}.ipxe 200"
KERNEL = f"10.1.0.20 {DAY}3 /images/environment/1/vmlinuz 200"
ROOT = f"10.1.0.20 {DAY}9 /images/environment/1/root.squashfs 206"


def requested(*lines: str, before: BootRequests = BootRequests()) -> BootRequests:  # noqa: B008
    requests = [each for line in lines if (each := parsed(line)) is not None]
    return heard(before, "a1", requests, NONCE, (MAC,))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "no request for its boot script has come to a1: look at its boot order, its cable, and DHCP"),
        ((SCRIPT,), "a1 at 15:00:02 gave the boot script, and no kernel was requested: iPXE or the image fails"),
        ((SCRIPT.replace(" 200", " 403"),), "a1 at 15:00:02 refused its boot script with 403"),
        (
            (SCRIPT, KERNEL),
            "a1 at 15:00:03 gave the kernel, and no root was requested: its kernel or its network card fails",
        ),
        ((SCRIPT, KERNEL, ROOT), "a1 at 15:00:09 gave the root, and its agent has not spoken yet"),
        (
            (SCRIPT, KERNEL, ROOT, f"10.1.0.77 {DAY}9 /agent/52%3A54%3A00%3A00%3A00%3A01/tls?reason=x 404"),
            "its agent reported tls (15:00:09)",
        ),
        ((SCRIPT, KERNEL, ROOT, SCRIPT.replace("02", "08")), "a1 at 15:00:08 gave the boot script"),
        ((KERNEL,), "no request for its boot script"),
        ((SCRIPT, KERNEL.replace(".20 ", ".21 ")), "a1 at 15:00:02 gave the boot script"),
        ((SCRIPT.replace("ab", "cd"), KERNEL), "no request for its boot script"),
        ((SCRIPT, KERNEL.replace(" 200", " 404")), "a1 at 15:00:02 gave the boot script"),
        ((f"10.1.0.9 {DAY}1 /agent/52-54-00-00-00-02/tls 404",), "no request for its boot script"),
    ],
)
def test_the_newest_request_and_the_lacking_one_are_named(lines: tuple[str, ...], said: str) -> None:
    assert sentence(requested(*lines), ["a1"]).startswith(said)


def test_requests_that_come_in_two_pieces_are_put_together() -> None:
    assert requested(KERNEL, ROOT, before=requested(SCRIPT)) == requested(SCRIPT, KERNEL, ROOT)


@pytest.mark.parametrize(
    "line", ["", "x", "10.1.0.20 /boot/a.ipxe 200", f"10.1.0.20 {DAY}2 boot 200", f"\x1b[2J {DAY}2 /a 200"]
)
def test_a_line_of_another_form_is_left_out(line: str) -> None:
    assert parsed(line) is None


def test_a_stranger_adds_few_words() -> None:
    lines = [f"10.1.0.9 {DAY}1 /agent/52-54-00-00-00-01/{word * 20} 404" for word in "abcdefgh"]
    assert len(requested(*lines).words) == 3
    assert len(sentence(requested(*lines), ["a1"])) < 200

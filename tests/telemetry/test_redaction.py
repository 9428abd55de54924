"""Secret values are hidden in texts, in whatever form and however they are cut into pieces."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import shlex
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.jigs.jig import Failed, bounded
from nodepool_ocb.jigs.output import Output
from nodepool_ocb.model import tokens
from nodepool_ocb.telemetry import redaction
from nodepool_ocb.telemetry.logs import Lines, Plain
from nodepool_ocb.telemetry.redaction import HIDDEN, Mask, MaskingStream

SECRET = 'hunter22 "&/ü'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET).lower(),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        SECRET.encode().hex(),
        "hunter22 &quot;&amp;/ü",
        'hunter22 "&amp;/ü',
        SECRET.encode().hex().upper(),
    ],
)
def test_a_secret_is_hidden_in_each_form_that_tools_give_it(form: str) -> None:
    assert Mask(frozenset({SECRET})).text(f"say {form}, again {form}.") == f"say {HIDDEN}, again {HIDDEN}."


@pytest.mark.parametrize(
    ("secret", "form"), [("ring\x07the bell", r"ring\x07the bell"), ("it's late", "it'\"'\"'s late")]
)
def test_a_secret_is_hidden_as_programs_and_shells_quote_it(secret: str, form: str) -> None:
    assert Mask(frozenset({secret})).text(f"say '{form}'.") == f"say '{HIDDEN}'."


def test_the_longest_value_is_hidden_whole_whatever_else_stands_in_it() -> None:
    mask = Mask(frozenset({"abcd", "abcdefgh", "cdef"}))
    assert mask.text("-abcdefgh-abcd-") == f"-{HIDDEN}-{HIDDEN}-"


def test_what_is_too_short_is_not_looked_for() -> None:
    assert not Mask(frozenset({"abc"}))
    assert Mask(frozenset({"abc", "no\nlonger-one"})).text("abc: no") == "abc: no"
    assert redaction.unhidden("abc\n  no  \n\nlonger") == 2


def test_each_line_of_four_characters_and_more_is_hidden() -> None:
    """As recovery codes and lists of PINs have them."""
    secret = "pin-417\nabc-925\n4711\nlonglonglongline-77"
    shown = Mask(frozenset({secret})).text("".join(f"  key: {line}\n" for line in secret.splitlines()))
    assert shown == f"  key: {HIDDEN}\n" * 4


HARD = "it's \"a\" $HOME/`x` & <b>\\ü\tend\n2nd 'line'"


def _shell(*words: str) -> str:
    made = subprocess.run(["bash", "-c", *words, "bash", HARD], capture_output=True, text=True, check=True)
    return made.stderr or made.stdout


@pytest.mark.parametrize(
    "form",
    [
        json.dumps(HARD), json.dumps(HARD, ensure_ascii=False), json.dumps(HARD).replace("/", "\\/"),
        json.dumps(HARD).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"),
        repr(HARD), shlex.quote(HARD), html.escape(HARD), html.escape(HARD, quote=False),
        html.escape(HARD).replace("&#x27;", "&apos;"), html.escape(HARD).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        urllib.parse.quote(HARD), urllib.parse.quote(HARD, safe=""), urllib.parse.quote_plus(HARD),
        urllib.parse.quote(HARD, safe="!'()*"), HARD.encode().hex(), base64.b64encode(HARD.encode()).decode(),
        HARD.replace("'", "''"), re.sub(r'(["$`\\])', r"\\\1", HARD),
        _shell("set -x; : \"$1\""), _shell("printf %q \"$1\""), _shell("declare -p 1 2>/dev/null || printf '%s' \"${1@Q}\""),
    ],
)  # fmt: skip
def test_no_form_that_the_page_names_leaves_a_part_of_a_secret(form: str) -> None:
    shown = Mask(frozenset({HARD})).text(form)
    assert HIDDEN in shown
    assert not any(part in shown for part in ("HOME", "2nd", "end", "line")), shown


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_base64_that_is_cut_into_lines_is_hidden_in_each_of_them(width: int, end: str) -> None:
    secret = "".join(chr(33 + each * 7 % 90) for each in range(200))
    for before in ("", "user:", "a longer beginning of what is encoded with it "):
        whole = base64.b64encode(f"{before}{secret}".encode()).decode()
        cut = end.join(whole[at : at + width] for at in range(0, len(whole), width))
        left = Mask(frozenset({secret})).text(cut).replace(HIDDEN, "").replace(end, "")
        assert len(left) <= len(base64.b64encode(before.encode())) + 4


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
@pytest.mark.parametrize("after", ["", "!", "@host"])
def test_a_secret_is_hidden_wherever_it_begins_in_base64(before: str, after: str) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        shown = Mask(frozenset({SECRET})).data(encode((before + SECRET + after).encode())).decode()
        bare = shown.replace(HIDDEN, "")
        assert HIDDEN in shown
        assert len(bare) <= len(encode((before + after).encode())) + 4


def test_each_line_of_a_key_is_hidden_by_itself() -> None:
    key = "-----BEGIN KEY-----\n  MIIEvQIBADANBg\n  kqhkiG9w0BAQEF\n-----END KEY-----"
    shown = Mask(frozenset({key})).text("+ kqhkiG9w0BAQEF\n+ MIIEvQIBADANBg")
    assert shown == f"+ {HIDDEN}\n+ {HIDDEN}"


@given(
    st.lists(st.sampled_from(["abcd", "abcdefgh", "cdab", "xyxyx", "a", "x", "-", "cdef"]), max_size=12),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_however_output_is_cut_into_pieces_it_is_masked_as_a_whole(words: list[str], cuts: list[int]) -> None:
    mask, whole = Mask(frozenset({"abcd", "abcdefgh", "xyxyx", "cdef"})), "".join(words).encode()
    stream, known, at = MaskingStream(mask), b"", 0
    for cut in [*sorted(cuts), len(whole)]:
        known += stream.take(whole[at:cut])
        at = max(at, cut)
        assert known + stream.rest() == mask.data(whole[:at])
    assert known + stream.end() == mask.data(whole)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.sampled_from(["", "\n", "\r\n"]))
def test_base64_in_lines_is_masked_as_a_whole_however_it_is_cut(cuts: list[int], end: str) -> None:
    mask = Mask(frozenset({"a-secret-of-some-length", "zz"}))
    encoded = base64.b64encode(b"user:a-secret-of-some-length@host").decode()
    whole = f"x\n{end.join(encoded[at : at + 11] for at in range(0, len(encoded), 11))}\nmore".encode()
    stream, known, at = MaskingStream(mask), b"", 0
    for cut in [*cuts, len(whole)]:
        known += stream.take(whole[at : at + cut])
        at = min(len(whole), at + cut)
        assert known + stream.rest() == mask.data(whole[:at])
    assert known + stream.end() == mask.data(whole)


def _key(lines: int) -> str:
    return "".join(f"A{line:063d}\n" for line in range(lines))


def test_a_stream_holds_back_only_what_may_begin_a_value() -> None:
    """A log that is followed shows a line when it comes, also beside a long secret."""
    stream = MaskingStream(Mask(frozenset({_key(50)})))
    assert stream.take(b"a line of the script\n") == b"a line of the script\n"
    assert stream.take(b"A000") == b""
    assert stream.take(b"!") == b"A000!"


def test_the_cost_of_a_mask_hardly_depends_on_the_length_of_its_values() -> None:
    mask = Mask(frozenset({_key(500)}))
    began = time.process_time()
    stream = MaskingStream(mask)
    for _ in range(4000):
        assert stream.take(b"line of a script\n")
    assert mask.text(f"{'a line of a script ' * 8000}{_key(3)}").count(HIDDEN) == 3
    assert time.process_time() - began < 5, "5 s; it was above 60 s, and now it is 0.5 s"


def test_a_log_and_a_tail_have_no_secret_that_came_in_two_reads(tmp_path: Path) -> None:
    with Output(tmp_path / "log", mask=Mask(frozenset({"hunter22"}))) as output:
        output.take(0, b"password: hunt")
        output.take(14, b"er22\nmore")
        assert output.tail == f"password: {HIDDEN}\nmore"
        output.skip(1000)  # what comes next may be the end of a secret
        output.take(1000, b"ter22 and what lies beyond is seen")
    logged = (tmp_path / "log").read_text()
    assert logged.startswith(f"password: {HIDDEN}\nmore")
    assert "er22" not in logged
    assert logged.endswith("beyond is seen")
    assert logged == output.tail


def test_a_reason_has_no_secret_even_where_it_is_shortened() -> None:
    failed = bounded(Failed("x" * 495 + "hunter22" + "x" * 1000, tail="hunter22"), Mask(frozenset({"hunter22"})))
    assert isinstance(failed, Failed)
    assert "hunt" not in failed.reason
    assert failed.tail == HIDDEN


def test_log_lines_and_tracebacks_have_no_secret_that_this_process_opened() -> None:
    redaction.remember(["hunter-of-lines"])
    try:
        raise ValueError("cannot log in with hunter-of-lines")
    except ValueError as error:
        record = logging.LogRecord("a", logging.DEBUG, "f", 1, "%s failed", ("hunter-of-lines",), None)
        record.exc_info = type(error), error, error.__traceback__
        for formatter in (Plain(), Lines()):
            assert "hunter-of-lines" not in formatter.format(record)


def test_log_lines_hide_the_newest_values_and_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_batches", [])
    monkeypatch.setattr(redaction, "BATCH", 1)
    monkeypatch.setattr(redaction, "REMEMBERED", 3)
    redaction.remember(["value-1", "value-2"])
    assert redaction.masked("value-1 value-2") == f"{HIDDEN} {HIDDEN}"
    redaction.remember(["value-3"])
    assert redaction.masked("value-3") == HIDDEN
    redaction.remember(["value-1", "value-4"])
    assert redaction.masked("value-1 value-2 value-3 value-4") == f"{HIDDEN} value-2 {HIDDEN} {HIDDEN}"
    monkeypatch.undo()
    redaction.remember(())


def test_log_lines_hide_what_two_batches_of_values_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_batches", [])
    monkeypatch.setattr(redaction, "BATCH", 1)
    redaction.remember(["abcdef", "efghij"])
    assert redaction.masked("-abcdefghij-") == f"-{HIDDEN}-"


TOKEN = tokens.text("00000000002a", bytes(range(32)))


@pytest.mark.parametrize("cut", range(1, len(TOKEN) + 6))
def test_a_token_that_no_record_has_is_hidden_by_its_form_however_it_is_cut(cut: int) -> None:
    said = f"foo ocb.boot={TOKEN} ocb_00".encode()
    stream = MaskingStream(Mask(tokens=True))
    shown = stream.take(said[:cut]) + stream.take(said[cut:])
    assert TOKEN[:20].encode() not in shown
    assert shown + stream.end() == f"foo ocb.boot={HIDDEN} ocb_00".encode()


def test_only_the_beginning_of_a_token_is_held_back() -> None:
    stream = MaskingStream(Mask(frozenset({"hunter22"}), tokens=True))
    assert stream.take(b"to do ocb_xy ocb.boot=ocb_0000") == b"to do ocb_xy ocb.boot="
    assert stream.take(b"g0 hunter") == b"ocb_0000g0 "
    assert Mask(frozenset({"hunter22"})).text(TOKEN) == TOKEN, "other logs have no such rule"
    assert Mask(tokens=True).longest == tokens.LENGTH

"""Secret values are kept out of texts: wherever one stands, plain or in a form that tools give it, HIDDEN stands instead.

Forms: as it is, each of its lines, in base64 (also inside of something longer, and cut into lines), in hexadecimal, for URLs, in
JSON, XML, YAML and shell words. A value or a line that is shorter than SHORTEST is not looked for. A mask is immutable;
``remember`` has the log lines of this process masked, too.
"""

from __future__ import annotations

import base64
import bisect
import functools
import html
import itertools
import json
import re
import shlex
import threading
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from nodepool_ocb.model import tokens

HIDDEN: Final = "(secret)"
UTF: Final = ("utf-8", "surrogatepass")
SHORTEST: Final = 4  # characters of a value, or of a line of one, without the blanks around it
BREAK_BYTES: Final = 2
SHORTEST_LINE: Final = 60  # characters of base64 before it is cut
REMEMBERED: Final = 500  # values, for log lines; the newest
BATCH: Final = 25  # of them; a new one costs a new pattern for its batch alone
_TOKEN: Final = re.compile(tokens.FORM.encode())
_BEGINS: Final = re.compile(b"o")
_PART: Final = re.compile(rb"o|oc|ocb|ocb_[0-9a-f]{0,12}|ocb_[0-9a-f]{12}_[A-Za-z0-9_-]{0,42}")  # of a token


class Mask(msgspec.Struct, frozen=True):
    """Hides some values; those that are too short are left out. ``tokens``: also each token of the API, by its form."""

    values: frozenset[str] = frozenset()
    tokens: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "values", frozenset(each for each in self.values if len(each) >= SHORTEST))

    @property
    def longest(self) -> int:
        """Bytes of the longest form of a value."""
        return max(_patterns(self.values).longest, tokens.LENGTH if self.tokens else 0)

    def __bool__(self) -> bool:
        return bool(self.values) or self.tokens

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """The ranges of the data that must be hidden, in order; overlapping ranges are one."""
        found = _found(self.values, data) if self.values else []
        return _merged([*found, *(match.span() for match in _TOKEN.finditer(data))] if self.tokens else found)

    def unfinished(self, data: bytes) -> int:
        """Where the first value may begin that goes on behind the data; the end of the data where there is none."""
        first = _unfinished(self.values, data) if self.values else len(data)
        if not self.tokens:
            return first
        begins = _BEGINS.finditer(data, max(0, len(data) - tokens.LENGTH + 1))
        return next((at for each in begins if (at := each.start()) < first and _PART.fullmatch(data, at)), first)

    def data(self, data: bytes) -> bytes:
        """The same without the values."""
        return _without(data, self.spans(data))

    def text(self, text: str) -> str:
        """The same without the values.

        >>> Mask(frozenset({"hunter22"})).text("login admin:hunter22, YWRtaW46aHVudGVyMjI=")
        'login admin:(secret), YWRtaW46(secret)I='
        """
        data = text.encode(*UTF)
        spans = self.spans(data)
        return _without(data, spans).decode(*UTF) if spans else text


class MaskingStream:
    """Masks bytes that come in pieces. Only bytes that may be the beginning of a value are held back, until more has come."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._held = b""
        self._hidden: int | None = (
            None  # so many of the held bytes belong to a value that HIDDEN was told for; 0: it ends here
        )

    def take(self, data: bytes) -> bytes:
        """The masked bytes that can be shown by now."""
        if not self._mask:
            return data
        self._held += data
        return self._known_until(self._mask.unfinished(self._held))

    def rest(self) -> bytes:
        """The bytes that are held back, masked; they stay held back."""
        return MaskingStream._copied(self)._known_until(len(self._held))

    def end(self) -> bytes:
        """The bytes that were held back, masked, when no more come."""
        return self._known_until(len(self._held))

    def _copied(self) -> MaskingStream:
        copy = MaskingStream(self._mask)
        copy._held, copy._hidden = self._held, self._hidden
        return copy

    def _known_until(self, until: int) -> bytes:
        """The held bytes up to there, masked. A value that begins before is hidden whole."""
        parts, at, last = [], self._hidden or 0, self._hidden
        for start, end in self._mask.spans(self._held):
            if start >= until:
                break
            parts.append(self._held[at:start])
            if last is None or start > last:
                parts.append(HIDDEN.encode())
            at = last = max(at, end)
        parts.append(self._held[at:until])
        self._held, self._hidden = self._held[until:], None if last is None or last < until else last - until
        return b"".join(parts)


def unhidden(text: str) -> int:
    """How many lines of a value are too short to be hidden.

    >>> unhidden("pin-417\\n12\\n\\n{"), unhidden("abc")
    (2, 1)
    """
    return sum(0 < len(line) < SHORTEST for line in map(str.strip, text.splitlines()))


_BREAK: Final = re.compile(rb"(?<=[A-Za-z0-9+/_-])\r?\n(?=[A-Za-z0-9+/_-])")
_LAST_BREAK: Final = re.compile(rb"(?<=[A-Za-z0-9+/_-])(\r?\n|\r)\Z")
Spans: TypeAlias = list[tuple[int, int]]


class _Forms:
    """Finds texts in data: at each place the longest of them that stands there.

    The cost of a search depends on the data, and hardly on the number of texts: a key has fifty lines, and each line has
    twenty forms. Only a place that begins as one of the texts is compared, and with one text by bisection.
    """

    def __init__(self, texts: Collection[bytes]) -> None:
        self.longest = max(map(len, texts), default=0)
        self._groups: dict[bytes, list[bytes]] = {}  # by their first bytes; sorted
        self._shorter: dict[bytes, bytes] = {}  # a text → the longest other one that it begins with
        for text in sorted(texts):
            group = self._groups.setdefault(text[:SHORTEST], [])
            before = group[-1] if group else None
            while before is not None and not text.startswith(before):
                before = self._shorter.get(before)
            if before is not None:
                self._shorter[text] = before
            group.append(text)
        self._heads = {head[:length] for head in self._groups for length in range(1, SHORTEST)}
        self._begins = re.compile(b"(?=" + b"".join(map(_one_of, zip(*self._groups, strict=True))) + b")", re.DOTALL)

    def spans(self, data: bytes) -> Spans:
        """The ranges of the texts, by their beginning."""
        found: Spans = []
        for match in self._begins.finditer(data):
            at = match.start()
            if group := self._groups.get(data[at : at + SHORTEST]):
                length = self._length(group, data, at)
                if length:
                    found.append((at, at + length))
        return found

    def unfinished(self, data: bytes) -> int:
        """Where the first of the texts may begin that goes on behind the data; the end of the data where there is none."""
        for match in self._begins.finditer(data, max(0, len(data) - self.longest + 1)):
            at = match.start()
            if group := self._groups.get(data[at : at + SHORTEST]):
                rest = data[at:]
                place = bisect.bisect_right(group, rest)
                if place < len(group) and group[place].startswith(rest):
                    return at
        ends = range(max(0, len(data) - SHORTEST + 1), len(data))
        return next((at for at in ends if data[at:] in self._heads), len(data))

    def _length(self, group: Sequence[bytes], data: bytes, at: int) -> int:
        """Of the longest text of a group that stands there, or 0: a text that stands there sorts before the data."""
        place = bisect.bisect_right(group, data[at : at + self.longest])
        text = group[place - 1] if place else None
        while text is not None and not data.startswith(text, at):
            text = self._shorter.get(text)
        return len(text or b"")


def _one_of(codes: Iterable[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % code for code in sorted(set(codes))) + b"]"


class _Patterns(NamedTuple):
    """The pattern that finds some values: any form of them, and base64 alone for text without its line breaks."""

    forms: _Forms
    base64: _Forms
    longest: int  # bytes of the longest form, with the line breaks that may be in it


@functools.lru_cache(maxsize=128)
def _patterns(values: frozenset[str]) -> _Patterns:
    forms = {form for value in values for form in _forms(value)}
    encoded = {form for value in values for text in _texts(value) for form in _base64(text.encode(*UTF))}
    cut = max((len(form) + BREAK_BYTES * (1 + len(form) // SHORTEST_LINE) for form in encoded), default=0)
    found = _Forms(forms)
    return _Patterns(found, _Forms(encoded), max(found.longest, cut))


def _found(values: frozenset[str], data: bytes) -> Spans:
    """Where any form of the values stands; base64 also where it is cut into lines."""
    patterns = _patterns(values)
    found = patterns.forms.spans(data)
    if joined := _joined(data):
        found += [(joined.place(start), joined.place(end - 1) + 1) for start, end in patterns.base64.spans(joined.data)]
    return found


def _unfinished(values: frozenset[str], data: bytes) -> int:
    """Where the first form of the values may begin that goes on behind the data."""
    patterns = _patterns(values)
    first = patterns.forms.unfinished(data)
    begun = _LAST_BREAK.sub(b"", data)  # the next byte says whether base64 goes on behind it
    if len(begun) == len(data) and b"\n" not in data:
        return first
    joined = _joined(begun) or _Joined(begun, [0], [0])
    at = patterns.base64.unfinished(joined.data)
    return min(first, joined.place(at)) if at < len(joined.data) else first


class _Joined(NamedTuple):
    """Data without the line breaks that may be in base64."""

    data: bytes
    starts: list[int]  # of each line, before they were joined
    places: list[int]  # of each line, in the joined data

    def place(self, at: int) -> int:
        """Where a byte of it was before."""
        line = bisect.bisect_right(self.places, at) - 1
        return self.starts[line] + at - self.places[line]


def _joined(data: bytes) -> _Joined | None:
    """None where there is no such break."""
    breaks = [match.span() for match in _BREAK.finditer(data)] if b"\n" in data else []
    if not breaks:
        return None
    starts, ends = [0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(data)]
    lines = list(zip(starts, ends, strict=True))
    places = itertools.accumulate((end - start for start, end in lines[:-1]), initial=0)
    return _Joined(b"".join(data[start:end] for start, end in lines), starts, list(places))


def _merged(spans: Spans) -> Spans:
    """In order, and overlapping ones as one."""
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _without(data: bytes, spans: Spans) -> bytes:
    parts, at = [], 0
    for start, end in spans:
        parts += [data[at:start], HIDDEN.encode()]
        at = end
    return b"".join([*parts, data[at:]]) if parts else data


def _texts(value: str) -> set[str]:
    """The value, and its lines."""
    return {value, *(line for line in map(str.strip, value.splitlines()) if len(line) >= SHORTEST)}


def _forms(value: str) -> Iterator[bytes]:
    for text in _texts(value):
        data = text.encode(*UTF)
        yield data
        yield from (form for form in (data.hex().encode(), data.hex().upper().encode()))
        yield from _base64(data)
        for url in _in_urls(data):
            yield url.encode()
            yield re.sub("%..", lambda code: code[0].lower(), url).encode()
        for escaped in (*_in_json(text), *_in_markup(text), *_in_shells(text)):
            yield escaped.encode(*UTF)


def _in_urls(data: bytes) -> Iterator[str]:
    """As percent-encoding leaves it: all escaped, or without characters that JavaScript, paths and forms leave as they are."""
    yield urllib.parse.quote(data, safe="")
    yield urllib.parse.quote(data)
    yield urllib.parse.quote_plus(data)
    yield urllib.parse.quote(data, safe="!'()*")


def _in_json(text: str) -> Iterator[str]:
    """In JSON, with the characters that some writers escape besides; and as Python shows it."""
    for escaped in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", escaped)
    yield repr(text)[1:-1]


def _in_markup(text: str) -> Iterator[str]:
    """In XML and HTML, whichever names the quotes have; and between the single quotes of YAML or SQL."""
    yield html.escape(text, quote=False)
    for double, single in (("&quot;", "&#x27;"), ("&quot;", "&apos;"), ("&quot;", "&#39;"), ("&#34;", "&#39;")):
        yield html.escape(text, quote=False).replace('"', double).replace("'", single)
    yield text.replace("'", "''")


def _in_shells(text: str) -> Iterator[str]:
    """Between single quotes, as two ways of ending them leave it; between double ones; in $'...'; and each character escaped."""
    yield shlex.quote(text).strip("'")
    yield text.replace("'", "'\\''")
    yield re.sub(r'(["$`\\])', r"\\\1", text)
    yield text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)


def _base64(data: bytes) -> Iterator[bytes]:
    """The part of it that is the same wherever it begins in something longer, and however that goes on."""
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(bytes(before) + data).rstrip(b"=")
            own = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
            if len(own) >= SHORTEST:
                yield own


# -- log lines --

_lock = threading.Lock()
_batches: list[frozenset[str]] = []  # the oldest first


def remember(values: Iterable[str]) -> None:
    """Hide these from the log lines of this process, from now on; each is among the newer half then."""
    most = REMEMBERED // BATCH
    with _lock:
        newer = frozenset[str]().union(*_batches[-(most // 2) :])
        for value in values:
            if len(value) >= SHORTEST and value not in newer:
                if not _batches or len(_batches[-1]) >= BATCH:
                    _batches.append(frozenset())
                _batches[-1] |= {value}
        del _batches[:-most]


def masked(text: str) -> str:
    """A log line without the values that are remembered."""
    if not (batches := tuple(_batches)):
        return text
    data = text.encode(*UTF)
    spans = _merged([span for batch in batches for span in _found(batch, data)])
    return _without(data, spans).decode(*UTF) if spans else text

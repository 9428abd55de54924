"""The secrets of one run: opened for its jig, hidden in its output, sealed again in its returned values.

``Secrets`` is one for a process, used by any number of threads; a key file that changed is read again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from nodepool_ocb.config import SecretsSettings
from nodepool_ocb.engine import attributes as blobs
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy import keyring, references
from nodepool_ocb.secrecy.errors import Sealed
from nodepool_ocb.secrecy.keyring import Keyring
from nodepool_ocb.telemetry import redaction
from nodepool_ocb.telemetry.redaction import SHORTEST, Mask

SHORT: Final = f"it is shorter than {SHORTEST} characters, and could not be kept out of logs"


class Opened(msgspec.Struct, frozen=True):
    """The inputs of a jig; ``texts`` are the stored forms of its secrets, by their values as JSON."""

    attributes: dict[str, Json] = {}
    mask: Mask = Mask()
    texts: Mapping[bytes, str] = {}

    def within(self, attributes: Mapping[str, Json]) -> dict[str, Json]:
        """Other attributes with the secrets that were opened for the run; a secret that was not stays as it is stored."""
        if not self.texts:
            return dict(attributes)
        values = {text: msgspec.json.decode(value) for value, text in self.texts.items()}
        plain: dict[str, Json] = secrecy.replaced(attributes, lambda _, text: values.get(text, {secrecy.KEY: text}))
        return plain


class Secrets:
    """The secrets that this host can open, by its configuration."""

    def __init__(self, settings: SecretsSettings | None = None) -> None:
        self._settings = settings or SecretsSettings()
        self._read: tuple[object, Keyring] | None = None  # which file, and its keys

    def configure(self, settings: SecretsSettings) -> None:
        """Use these from now on."""
        self._settings = settings

    @property
    def trouble(self) -> str | None:
        """Why the key file that the configuration names is of no use, in one sentence. No record has a part in it."""
        try:
            self.keys()
        except Sealed as sealed:
            return f"secrets: {sealed}"
        return None

    def keys(self) -> Keyring:
        """The keys that are in the file now; raises Sealed."""
        name = self._settings.key_file
        which = name, _state(name)
        if self._read is None or self._read[0] != which:
            self._read = which, keyring.load(name)
        return self._read[1]

    def value(self, place: str, text: str) -> Json:
        """The value of the secret at a place; raises Sealed, which names the place and the reference.

        Any other exception of one text is reported for that text alone. OSError and MemoryError are this host's.
        """
        refers = not text.startswith("enc:")
        name = f"{secrecy.blame(place)} ({secrecy.shown(text)})" if refers else secrecy.blame(place)
        try:
            value = references.resolve(self._settings, text) if refers else self.keys().decrypt(place, text)
            if not hideable(value):
                raise Sealed(f"{SHORT}; set a longer one", own=False)
        except Sealed as sealed:
            raise Sealed(f"{name}: {sealed}", own=sealed.own, forbidden=sealed.forbidden) from None
        except (ValueError, TypeError, LookupError, RecursionError) as odd:
            raise Sealed(f"{name}: it cannot be read ({type(odd).__name__}); set it anew", own=False) from None
        return value

    def opened(self, attributes: Mapping[str, Json]) -> Opened:
        """The attributes with the values of their secrets; raises Sealed."""
        values = [(self.value(place, text), text) for place, text in secrecy.found(attributes)]
        if not values:
            return Opened(dict(attributes))
        given = iter([value for value, _ in values])
        mask = Mask(frozenset(text for value, _ in values for text in _texts(value)))
        redaction.remember(mask.values)
        plain = secrecy.replaced(attributes, lambda _, __: next(given))
        return Opened(plain, mask, {_encoded(value): text for value, text in values})

    def sealed(
        self, wall: Mapping[str, Json], before: Mapping[str, Json], places: Collection[str], opened: Opened
    ) -> dict[str, Json]:
        """The returned values of a run in their stored form. A value is sealed if the role has a secret there, or if it
        contains one of the run's secrets.

        ``before``: the present wall; its secrets with unchanged values stay as they are. Raises Sealed without a key, and
        for a reference to a secret: a machine would get any secret that it names.
        """
        if (place := secrecy.named(wall)) is not None:
            raise Sealed(
                f"the role's script returned a reference to a secret in attribute {opened.mask.text(place or secrecy.KEY)}, which"
                " only people may set; change the script to return the value",
                own=False,
            )
        if not places and not opened.mask:
            return dict(wall)
        keep = _Keep(self, before, opened)
        kept: dict[str, Json] = {opened.mask.text(key): keep.safe(key, value) for key, value in wall.items()}
        for place in places:
            value = blobs.at(wall, place)
            if value is not blobs.MISSING:
                kept = blobs.write(kept, place, keep.at(place, value))
        return kept


class _Keep:
    """Seals values of one wall."""

    def __init__(self, secrets: Secrets, before: Mapping[str, Json], opened: Opened) -> None:
        self._secrets, self._before, self._opened = secrets, before, opened

    def safe(self, place: str, value: Json) -> Json:
        """The same, each text with a secret in it sealed."""
        mask = self._opened.mask
        if isinstance(value, dict):
            return {mask.text(key): self.safe(f"{place}/{key}", each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.safe(f"{place}/{index}", each) for index, each in enumerate(value)]
        text = value if isinstance(value, str) else _encoded(value).decode()
        return self.at(place, value) if mask.spans(text.encode("utf-8", "surrogatepass")) else value

    def at(self, place: str, value: Json) -> dict[str, Json]:
        """The value as a secret: as a reference if one refers to it, else encrypted for this place."""
        stored = self._opened.texts.get(_encoded(value))
        if stored is not None and secrecy.encrypted(stored) is None:
            return {secrecy.KEY: stored}
        return resealed(self._secrets, place, value, blobs.at(self._before, place, None))


def resealed(secrets: Secrets, place: str, value: Json, before: Json) -> dict[str, Json]:
    """A value encrypted for its place; if the value did not change, the former text. Raises Sealed without a key."""
    text = secrecy.text_of(before)
    if text is not None and secrecy.encrypted(text):
        try:
            if _encoded(secrets.keys().decrypt(place, text)) == _encoded(value):
                return {secrecy.KEY: text}
        except Sealed:  # the former value does not matter any more
            pass
    return secrets.keys().encrypt(place, value)


def hideable(value: Json) -> bool:
    """Whether a value is long enough to be kept out of logs."""
    return any(_texts(value))


def unhidden(value: Json) -> int:
    """How many of its texts, or of their lines, are too short to be kept out of logs."""
    return sum(map(redaction.unhidden, _all_texts(value)))


def _texts(value: Json) -> Iterator[str]:
    """The texts in it that can be hidden."""
    return (text for text in _all_texts(value) if len(text) >= SHORTEST)


def _all_texts(value: Json) -> Iterator[str]:
    for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
        yield from _all_texts(each)
    if isinstance(value, str):
        yield value
    elif not isinstance(value, bool | dict | list | None):
        yield str(value)


def _encoded(value: Json) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _state(name: str | None) -> object:
    try:
        found = os.stat(Path(name)) if name else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode) if found else None

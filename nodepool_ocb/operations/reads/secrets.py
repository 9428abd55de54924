"""Secret values: encrypted and decrypted with the keys of the performer's host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.engine import attributes
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader
    from nodepool_ocb.secrecy.keyring import Keyring

NOT_HIDDEN: Final = "less than 4 characters: they are not hidden where a run prints them alone"


class SealValue(Lookup[dict[str, Json]], frozen=True):
    """A secret value as it may be written. If ``before`` holds the same value, the encrypted form stays the same.

    Raises Invalid for a value that cannot be kept secret, Sealed without a key.
    """

    records = "keys of the host"

    place: str
    value: Json
    before: Json

    def answer(self, reader: Reader) -> dict[str, Json]:
        from nodepool_ocb.secrecy.errors import Sealed
        from nodepool_ocb.secrecy.opening import SHORT, Secrets, hideable, resealed, unhidden

        reader.performer.plain_secrets.append(self.place)
        if not hideable(self.value):
            raise Invalid(f"{self.place} is secret: {SHORT}; give a longer one")
        if count := unhidden(self.value):
            lines = counted(count, "line or part", "lines or parts")
            reader.note_one_time(f"warning: {self.place} has {lines} of {NOT_HIDDEN}")
        try:
            return resealed(Secrets(reader.performer.settings().secrets), self.place, self.value, self.before)
        except Sealed as sealed:
            raise Sealed(f"{self.place} is secret, and cannot be encrypted here: {sealed}", own=True) from None


class RevealAttributes(Lookup[dict[str, Json]], frozen=True):
    """Attributes with encrypted values in plain text; references stay. Raises Sealed without the key."""

    records = "keys of the host"

    blob: Mapping[str, Json]

    def answer(self, reader: Reader) -> dict[str, Json]:
        from nodepool_ocb.secrecy.opening import Secrets

        keys = Secrets(reader.performer.settings().secrets).keys()

        def plain(place: str, text: str) -> Json:
            return keys.decrypt(place, text) if secrecy.encrypted(text) else text

        made: dict[str, Json] = secrecy.replaced(self.blob, plain)
        return made


class ReadKeyIds(Lookup[tuple[str, ...]], frozen=True):
    """The ids of the keys of the performer's host, the encrypting key first; empty without a key file."""

    records = "keys of the host"

    def answer(self, reader: Reader) -> tuple[str, ...]:
        from nodepool_ocb.secrecy.opening import Secrets

        return tuple(Secrets(reader.performer.settings().secrets).keys().ids)


class OldValue(msgspec.Struct, frozen=True):
    """Attributes before a rotation. ``plain``: each place with plain text that becomes secret, and its text."""

    name: str  # of the owner, for people
    value: Json
    plain: tuple[tuple[str, Json], ...] = ()


class RotatedValues(msgspec.Struct, frozen=True):
    """``values``: the attributes after a rotation, in order; ``unopened``: owner and place → the reason."""

    values: tuple[Json, ...]
    unopened: Mapping[str, str]


class RotateValues(Lookup[RotatedValues], frozen=True):
    """Encrypt attributes with the first key: texts of older keys, and plain texts. An unopened secret stays as it is."""

    records = "keys of the host"

    values: tuple[OldValue, ...]

    def answer(self, reader: Reader) -> RotatedValues:
        from nodepool_ocb.secrecy.opening import Secrets

        keys = Secrets(reader.performer.settings().secrets).keys()
        unopened: dict[str, str] = {}
        return RotatedValues(tuple(_rotated(keys, each, unopened) for each in self.values), unopened)


def _rotated(keys: Keyring, old: OldValue, unopened: dict[str, str]) -> Json:
    from nodepool_ocb.secrecy.errors import Sealed

    def anew(place: str, text: str) -> Json:
        try:
            return keys.anew(place, text) or {secrecy.KEY: text}
        except Sealed as sealed:
            unopened[f"{old.name} {place}"] = str(sealed)
            return {secrecy.KEY: text}

    value = old.value
    for place, plain in old.plain:
        value = attributes.write(value, place, keys.encrypt(place, plain))
    return secrecy.replaced(value, anew)

"""Secret values: encrypted and decrypted with the keys of the performer's host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from nodepool_ocb.documents.counting import counted
from nodepool_ocb.errors import Invalid
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader

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

        if not hideable(self.value):
            raise Invalid(f"{self.place} is secret: {SHORT}")
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

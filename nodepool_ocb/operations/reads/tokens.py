"""The records of tokens, and the random parts of a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from nodepool_ocb.engine.world import Stored
from nodepool_ocb.model import paths, tokens
from nodepool_ocb.model.tokens import Token
from nodepool_ocb.operations.operation import Lookup

if TYPE_CHECKING:
    from nodepool_ocb.operations.performer import Reader


class FoundTokens(msgspec.Struct, frozen=True):
    """``readable``: by id; ``unread``: path → reason."""

    readable: Mapping[str, Stored[Token]]
    unread: Mapping[str, str]


class ReadTokens(Lookup[FoundTokens], frozen=True):
    """All tokens, no older than this call."""

    records = "tokens"

    def answer(self, reader: Reader) -> FoundTokens:
        from nodepool_ocb.store import tokens

        reader.session.sync()
        unread: dict[str, str] = {}
        return FoundTokens(tokens.read(reader.session, unread), unread)


class EnsureTokens(Lookup[None], frozen=True):
    """Make the empty folder of tokens in a cluster that is older than tokens. A dry run makes none."""

    records = "tokens"

    def answer(self, reader: Reader) -> None:
        if not reader.performer.call.dry_run:
            reader.session.ensure(paths.TOKENS)


class FreshSecret(msgspec.Struct, frozen=True):
    """The random parts of a new token."""

    id: str
    secret: bytes


class DrawSecret(Lookup[FreshSecret], frozen=True):
    """The random parts of a new token; the same in each attempt of a call."""

    records = ""
    kept = True

    def answer(self, reader: Reader) -> FreshSecret:  # noqa: ARG002
        import secrets  # here, since few calls need it

        return FreshSecret(secrets.token_hex(tokens.ID_BYTES), secrets.token_bytes(tokens.SECRET_BYTES))

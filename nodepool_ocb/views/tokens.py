"""The tokens of the API, without their hashes."""

from __future__ import annotations

from collections.abc import Mapping

from nodepool_ocb.model.tokens import Token
from nodepool_ocb.views.view import View


class TokenRow(View, frozen=True, kw_only=True):
    """A token; its secret and the hash of it are not shown."""

    id: str
    name: str
    role: str
    deployments: tuple[str, ...]
    selector: str | None
    reveal: bool
    certificate: bool = False  # a client certificate opens it
    created: float
    by: str | None
    expires: float | None
    expired: bool
    used: float | None  # the last use, some minutes exact


class MadeToken(View, frozen=True, kw_only=True):
    """A new token, shown one time."""

    id: str
    token: str


def row(id: str, token: Token, now: float) -> TokenRow:
    """One token."""
    return TokenRow(
        id=id,
        name=token.name,
        role=str(token.role),
        deployments=token.deployments,
        selector=token.selector,
        reveal=token.reveal,
        certificate=token.certificate,
        created=token.created,
        by=token.by,
        expires=token.expires,
        expired=token.expires is not None and token.expires <= now,
        used=token.used,
    )


def rows(tokens: Mapping[str, Token], now: float) -> list[TokenRow]:
    """All tokens, by name, then by id."""
    return [row(id, token, now) for id, token in sorted(tokens.items(), key=lambda each: (each[1].name, each[0]))]

"""The rights of a person, from the claims that an issuer signed. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nodepool_ocb.config import OidcRole, OidcSettings
from nodepool_ocb.errors import Denied
from nodepool_ocb.model.tokens import ISSUED, Token, TokenRole
from nodepool_ocb.telemetry import terminal_escape

ID_PREFIX: Final = "oidc-"  # of the ids of such actors; an id of a token is hexadecimal
LONGEST_NAME: Final = 100
MOST_VALUES: Final = 1_000
NO_DIGEST: Final = "0" * 64  # no secret has it

#: The order of roles: of several values with a role, the greatest counts.
ORDER: Final = (TokenRole.VIEWER, TokenRole.OPERATOR, TokenRole.ADMIN)

_ODD: Final = re.compile(r"[\s%\x00-\x1f\x7f-\x9f]")


def granted(settings: OidcSettings, claims: Mapping[str, Any]) -> Token:
    """The rights as those of a token, without a secret. Raises Denied unless a value of the claim has a role."""
    found = [settings.roles[value] for value in _values(settings.claim, claims) if value in settings.roles]
    if not found:
        raise Denied(
            f"{name(settings, claims)} has no value of the claim {settings.claim} with a role here; an admin maps values to"
            " roles in api.oidc.roles"
        )
    role = max((TokenRole(each.role) for each in found), key=ORDER.index)
    equal = [each for each in found if each.role == role]
    deployments, selector = _limits(equal)
    return Token(
        name=name(settings, claims),
        role=role,
        digest=NO_DIGEST,
        deployments=deployments,
        selector=selector,
        reveal=_reveal(equal, deployments, selector),
        expires=float(claims["exp"]),
    )


def _limits(roles: Sequence[OidcRole]) -> tuple[tuple[str, ...], str | None]:
    """The limits of values with one role: what any of them opens is open. A selector cannot be joined with other limits."""
    if any(not each.deployments and each.selector is None for each in roles):
        return (), None
    if all(each.selector == roles[0].selector for each in roles) and all(each.deployments for each in roles):
        return tuple(dict.fromkeys(name for each in roles for name in each.deployments)), roles[0].selector
    return roles[0].deployments, roles[0].selector


def _reveal(roles: Sequence[OidcRole], deployments: Sequence[str], selector: str | None) -> bool:
    """Whether secrets within these limits are open: to each of the values, or to one that opens all of it alone.

    >>> lab, web = (OidcRole(role="operator", deployments=(name,), reveal=name == "lab") for name in ("lab", "web"))
    >>> _reveal([lab, web], ("lab", "web"), None), _reveal([lab], ("lab",), None)
    (False, True)
    """
    return all(each.reveal for each in roles) or any(
        each.reveal
        and each.selector in (None, selector)
        and (not each.deployments or (bool(deployments) and {*deployments} <= {*each.deployments}))
        for each in roles
    )


def _values(claim: str, claims: Mapping[str, Any]) -> list[str]:
    """The texts of a claim; a dot in its name leads into an object, unless a claim has the whole name."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return [each for each in listed[:MOST_VALUES] if isinstance(each, str)]


def name(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    """The name for the journal: one word without control characters, at most 105 long.

    >>> from nodepool_ocb.config import OidcSettings
    >>> made = OidcSettings(issuer="https://sso.example.com", client_id="ocb", roles={})
    >>> name(made, {"sub": "1", "preferred_username": "ann b" + chr(27)}), name(made, {"sub": "1"})
    ('oidc:ann%20b%1B', 'oidc:1')
    """
    given = claims.get(settings.name_claim)
    text = given if isinstance(given, str) and given.strip() else str(claims["sub"])
    cut = text[:LONGEST_NAME]
    word = "".join(_escaped(each) if _ODD.match(each) or terminal_escape.odd(each) else each for each in cut)
    if len(word) > LONGEST_NAME or cut != text:
        word = f"{word[: LONGEST_NAME - 13]}~{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return ISSUED + word


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))


def actor_id(issuer: str, claims: Mapping[str, Any]) -> str:
    """The id of the person: the same for each login, and of no other person."""
    return ID_PREFIX + hashlib.sha256(f"{issuer}\0{claims['sub']}".encode()).hexdigest()[:24]

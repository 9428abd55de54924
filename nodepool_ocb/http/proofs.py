"""Proofs of the right to read logs: a reader signs the certificate of a daemon with a key of the cluster.

Readers are servers of the API, and people; they alone may read the private keys in ZooKeeper. Daemons know the public halves.
A proof holds for one certificate. So a daemon that receives it cannot read the logs of another daemon with it.

>>> key = new_key()
>>> proven(proof(key, "a" * 64), "a" * 64, [public(key)]), proven(proof(key, "a" * 64), "b" * 64, [public(key)])
(True, False)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SCHEME: Final = "Ocb-Proof"
_MEANING: Final = b"nodepool-ocb: read the logs of the daemon with the certificate "


def new_key() -> str:
    """A new private key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
    )  # here, since it takes long to import

    return _text(Ed25519PrivateKey.generate().private_bytes_raw())


def public(private: str) -> str:
    """The public half of a private key. Raises ValueError for another text."""
    return _text(_private(private).public_key().public_bytes_raw())


def proof(private: str, certificate: str) -> str:
    """The header Authorization for the daemon with this certificate (its digest). Raises ValueError for another text."""
    return f"{SCHEME} {_text(_private(private).sign(_signed(certificate)))}"


def proven(authorization: str | None, certificate: str, readers: Collection[str]) -> bool:
    """Whether a header is a proof for this certificate, by the private key of one of the readers."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    scheme, _, text = (authorization or "").partition(" ")
    if scheme != SCHEME:
        return False
    for reader in readers:
        try:
            Ed25519PublicKey.from_public_bytes(_bytes(reader)).verify(_bytes(text), _signed(certificate))
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


def _private(text: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_bytes(text))


def _signed(certificate: str) -> bytes:
    return _MEANING + certificate.encode()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeError) as wrong:
        raise ValueError(f"no key or signature: {wrong}") from wrong

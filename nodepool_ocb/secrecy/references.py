"""Secrets that are stored elsewhere: files and variables of the annealer's host, and HashiCorp Vault (KV, version 2).

The writers of attributes choose the references. So these sources are the only ones: files below ``secrets.directory``,
variables that begin with ``secrecy.PREFIX``, and the paths that Vault's token opens.
"""

from __future__ import annotations

import errno
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Final

import msgspec

from nodepool_ocb.config import SecretsSettings, VaultSettings, secret_files
from nodepool_ocb.documents import files
from nodepool_ocb.documents.allowed import Outside
from nodepool_ocb.model import secrecy
from nodepool_ocb.model.records import Json
from nodepool_ocb.secrecy.errors import Sealed

MOST_BYTES: Final = 1 << 20
TIMEOUT_SECONDS: Final = 10.0
_UNSET: Final = (
    "{} is not set in the annealer's configuration; set it in nodepool-ocb.yaml there, then: systemctl reload"
    " nodepool-ocb-annealer"
)


def kinds(settings: SecretsSettings) -> tuple[str, ...]:
    """The kinds of references that a host with these settings can resolve.

    >>> kinds(SecretsSettings(directory="/etc/nodepool-ocb/secrets"))
    ('env', 'file')
    """
    named = {"env": True, "file": settings.directory, "vault": settings.vault}
    return tuple(kind for kind, given in named.items() if given)


def resolve(settings: SecretsSettings, text: str) -> Json:
    """The value of a reference; raises Sealed."""
    if why := secrecy.wrong(text):
        raise Sealed(f"it {why}", own=False)
    kind, _, what = text.partition(":")
    match kind:
        case "file":
            return _file(settings, what)
        case "env":
            return _variable(what)
        case "vault":
            return _vault(settings.vault, *what.rpartition("#")[::2])
    raise Sealed(f"{kind!r} is no kind of reference; write file:, env: or vault:", own=False)


def _file(settings: SecretsSettings, name: str) -> str:
    if settings.directory is None:
        raise Sealed(_UNSET.format("secrets.directory"), own=True)
    try:
        path = secret_files(settings).resolve(name)
    except Outside as outside:
        raise Sealed(f"{outside}; move it, or refer to another file", own=False, forbidden=outside.setting) from None
    try:
        return files.text(path, MOST_BYTES).removesuffix("\n")
    except OSError as error:
        raise Sealed(
            f"{name} cannot be read: {error.strerror}; check the file and its mode", own=error.errno != errno.EILSEQ
        ) from None


def _variable(name: str) -> str:
    if (value := os.environ.get(name)) is None:
        raise Sealed(
            f"the variable {name} is not set where this annealer was started; set it there, then: systemctl restart"
            " nodepool-ocb-annealer",
            own=True,
        )
    return value


def _vault(settings: VaultSettings | None, path: str, key: str) -> Json:
    """One key of a secret of the mount ``settings.mount``, in its newest version."""
    if settings is None:
        raise Sealed(_UNSET.format("secrets.vault"), own=True)
    url = f"{settings.address.rstrip('/')}/v1/{settings.mount}/data/{urllib.parse.quote(path)}"
    asked = urllib.request.Request(url, headers={"X-Vault-Token": _token(settings)})
    try:
        with _opener(settings).open(asked, timeout=TIMEOUT_SECONDS) as answer:
            values = msgspec.json.decode(answer.read(MOST_BYTES))["data"]["data"]
    except urllib.error.HTTPError as refused:
        refused.close()
        if refused.code == 404:
            raise Sealed(
                f"Vault has no such path: {path}; write it there, or correct the reference", own=False
            ) from None
        raise Sealed(
            f"Vault answers {refused.code}: {path}; check secrets.vault.token_file and the state of Vault", own=True
        ) from None
    except (OSError, HTTPException) as error:
        raise Sealed(
            f"Vault at {settings.address} does not answer: {error}; check secrets.vault.address", own=True
        ) from None
    except (msgspec.DecodeError, KeyError, TypeError):
        raise Sealed(
            f"Vault at {settings.address} answers without a secret for {path}; correct the path", own=True
        ) from None
    if not isinstance(values, dict) or key not in values:
        raise Sealed(f"Vault has no key {key} at {path}; write it there, or correct the reference", own=False)
    return values[key]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is sent to the configured address alone."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _opener(settings: VaultSettings) -> urllib.request.OpenerDirector:
    try:
        if settings.ca is not None:
            files.require(settings.ca)
        context = ssl.create_default_context(cafile=settings.ca)
    except OSError as error:
        raise Sealed(f"secrets.vault.ca cannot be used: {error}; name a file of certificates", own=True) from None
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect
    )


def _token(settings: VaultSettings) -> str:
    try:
        token = files.text(settings.token_file, MOST_BYTES).strip()
    except OSError as error:
        reason = f"secrets.vault.token_file {settings.token_file} cannot be read: {error.strerror}; check the path and the mode"
        raise Sealed(reason, own=True) from None
    if not token.isascii() or not token.isprintable():
        raise Sealed(f"secrets.vault.token_file {settings.token_file} holds no token; write one into it", own=True)
    return token

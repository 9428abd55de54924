"""Private pages of tests, and a reader with the key for them."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from nodepool_ocb.http import logs, proofs
from nodepool_ocb.http.certificates import OwnCertificate, PinnedConnection
from nodepool_ocb.http.logs import AskedPart, LogAccess, LogPart, MissingLog, Shorter, Unreached
from nodepool_ocb.http.page import Page, PrivatePages

CERTIFICATE: Final = OwnCertificate()
KEY: Final = proofs.new_key()


def private(**pages: Page) -> PrivatePages:
    """Pages with ``CERTIFICATE``, for the reader with ``KEY``."""
    return PrivatePages(pages, CERTIFICATE, lambda: (proofs.public(KEY),))


def access(*addresses: str) -> LogAccess:
    """The access of the reader to these addresses."""
    return LogAccess(dict.fromkeys(addresses, CERTIFICATE.digest), (KEY,))


def ask(
    address: str, name: str, offset: int = 0, wait_seconds: float = 0.0, patience_seconds: float = 5.0
) -> LogPart | MissingLog | Shorter | Unreached:
    """A part of a log, as the reader gets it."""
    return logs.ask(address, access(address), AskedPart(name, offset, wait_seconds, patience_seconds))


def get(address: str, path: str, proof: str | None = None) -> tuple[int, bytes]:
    """Status and body of a page, with the proof of the reader or another one."""
    host, _, port = address.rpartition(":")
    headers = {"Authorization": proofs.proof(KEY, CERTIFICATE.digest) if proof is None else proof}
    with closing(PinnedConnection(host, int(port), 10.0, CERTIFICATE.digest)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()

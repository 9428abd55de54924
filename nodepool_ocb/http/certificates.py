"""TLS between daemons and the readers of their logs, without an authority.

Each daemon makes a key and a certificate at its start, and registers the digest of the certificate. A reader compares the
certificate of the connection with that digest, and nothing else of it: no name, no issuer and no time. So clocks that differ
break no connection. The private key never leaves the memory of its process.
"""

from __future__ import annotations

import datetime
import hashlib
import http.client
import os
import ssl
from functools import cache
from typing import Final

#: A certificate without a time at which it begins or ends.
ALWAYS: Final = (datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 31))
HANDSHAKE: Final = b"\x16"  # the first byte of a TLS connection; no request of HTTP begins with it


class OwnCertificate:
    """The key and the certificate of this process. ``digest``: SHA-256 of the certificate, in hexadecimal digits."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = Ed25519PrivateKey.generate()
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nodepool-ocb daemon")])
        begins, ends = ALWAYS
        made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, ends).sign(
            key, None
        )
        self.digest = hashlib.sha256(made.public_bytes(Encoding.DER)).hexdigest()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.context.num_tickets = 0  # each connection carries one request
        self._load(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
        )

    def _load(self, pem: bytes) -> None:
        file = os.memfd_create("certificate", os.MFD_CLOEXEC)  # the ssl module reads files alone
        try:
            os.write(file, pem)
            self.context.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)


class PinnedConnection(http.client.HTTPConnection):
    """A connection over TLS to the holder of one certificate, given by its digest."""

    def __init__(self, host: str, port: int, timeout: float, certificate: str) -> None:
        super().__init__(host, port, timeout=timeout)
        self._certificate = certificate

    def connect(self) -> None:
        """Raises OSError, and ValueError for another certificate: nothing was sent then."""
        super().connect()
        self.sock = _context().wrap_socket(self.sock)
        if hashlib.sha256(self.sock.getpeercert(binary_form=True) or b"").hexdigest() != self._certificate:
            self.close()
            raise ValueError("its certificate is not the one that the daemon has registered")


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # PinnedConnection compares the certificate
    return context

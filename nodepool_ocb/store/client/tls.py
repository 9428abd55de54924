"""Our end of TLS: the files that the configuration names, read anew for each connection."""

from __future__ import annotations

import ssl

from nodepool_ocb.documents import files
from nodepool_ocb.errors import Invalid


def context(ca: str | None, cert: str | None, key: str | None, verify: bool) -> ssl.SSLContext:
    """The TLS context of a connection; raises Invalid, with the key and the file, for a file that cannot be read or
    used.

    >>> context("/nowhere/ca.pem", None, None, True)
    Traceback (most recent call last):
    nodepool_ocb.errors.Invalid: zookeeper.tls.ca: /nowhere/ca.pem: No such file or directory; check the path and the mode
    """
    for name, file in (("ca", ca), ("cert", cert), ("key", key)):
        if file is not None:
            _readable(name, file)
    if (cert is None) != (key is None):
        raise Invalid("zookeeper.tls: cert and key belong together; set both, or none")
    try:
        made = ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise Invalid(
            f"zookeeper.tls.ca: {ca}: there is no certificate in it ({error.reason}); name a PEM file of certificates"
        ) from error
    made.check_hostname = verify
    made.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if cert is not None and key is not None:
        try:
            made.load_cert_chain(cert, key)
        except ssl.SSLError as error:
            raise Invalid(
                f"zookeeper.tls.cert: {cert} and {key} are no certificate and its key ({error.reason});"
                " name two PEM files that belong together"
            ) from error
    return made


def _readable(name: str, file: str) -> None:
    try:
        files.read(file, 0)
    except OSError as error:
        raise Invalid(f"zookeeper.tls.{name}: {file}: {error.strerror}; check the path and the mode") from error

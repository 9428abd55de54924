"""Why a connection to ZooKeeper failed, in a sentence with advice. Pure."""

from __future__ import annotations

import ssl

NO_SASL = (
    "this server has no SASL, so it knows no users: give it authProvider.sasl and a JAAS file,"
    " or leave zookeeper.username out"
)
WANTS_USER = "it refuses clients without a user; set zookeeper.username and zookeeper.password"
WRONG_USER = "the user or the password is wrong: check zookeeper.username and zookeeper.password"
UNRESOLVED = "no host in zookeeper.hosts can be resolved; correct it, or the resolver"


def why(error: BaseException) -> str:
    """The cause of a fault; ``error`` is kazoo's, and the error behind it is its context.

    >>> why(ConnectionRefusedError(111, "Connection refused"))
    'connection refused: no server listens there; is it up, and is zookeeper.hosts right?'
    """
    cause = cause_of(error)
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused: no server listens there; is it up, and is zookeeper.hosts right?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {cause.verify_message}; check zookeeper.tls.ca and the server's certificate"
    if isinstance(cause, ssl.SSLError):
        return _of_tls(cause)
    if isinstance(cause, TimeoutError):
        return "no answer in time; is it up?"
    if isinstance(cause, OSError):
        return f"{cause.strerror or cause}; is it up?"
    return f"{error}; is it up, and does it want TLS (zookeeper.tls)?"


def cause_of(error: BaseException) -> BaseException:
    """The operating system's or TLS's own error, where kazoo's was raised for one."""
    context = error.__context__
    return context if isinstance(context, OSError) else error


def _of_tls(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return f"TLS failed ({reason}): the server wants a certificate that it trusts; set zookeeper.tls.cert and key"
    return f"TLS failed ({reason}): is this the port for TLS (secureClientPort)?"

"""The reason that TLS gives for a failed connection becomes a sentence that names the setting to change."""

from __future__ import annotations

import ssl

import pytest

from nodepool_ocb.store.client.diagnosis import why


def refusal(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "failed")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    "reason", ["TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE", "SSLV3_ALERT_BAD_CERTIFICATE"]
)
def test_a_server_that_wants_a_certificate_is_told_from_other_failures(reason: str) -> None:
    said = why(refusal(reason))
    assert reason in said
    assert "set zookeeper.tls.cert and key" in said


def test_any_other_failure_of_tls_asks_for_the_port() -> None:
    assert why(refusal("WRONG_VERSION_NUMBER")).endswith("is this the port for TLS (secureClientPort)?")

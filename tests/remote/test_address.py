"""The address of an API server."""

from __future__ import annotations

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.remote.address import parse


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://ocb.example.com", "https://ocb.example.com"),
        ("https://OCB.example.com:443/", "https://ocb.example.com"),
        ("https://ocb.example.com:9480/ocb/", "https://ocb.example.com:9480/ocb"),
        ("http://127.0.0.1:9480", "http://127.0.0.1:9480"),
        ("http://localhost:9480", "http://localhost:9480"),
        ("http://[::1]:9480", "http://[::1]:9480"),
    ],
)
def test_a_server_has_one_form_of_its_address(url: str, form: str) -> None:
    assert parse(url).url == form
    assert parse(form) == parse(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://ocb.example.com", "would send the token in plain text; write https://ocb.example.com"),
        ("http://10.0.0.7:9480", "plain text"),
        ("ocb.example.com", "is no address"),
        ("ftp://ocb.example.com", "is no address"),
        ("https://", "is no address"),
        ("https://ocb.example.com?x=1", "is no address"),
        ("https://ocb.example.com:port", "port"),
        ("https://ann:secret@ocb.example.com", "a URL holds no token"),
    ],
)
def test_an_address_that_would_not_do_is_refused(url: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refused:
        parse(url)
    assert "secret" not in str(refused.value)

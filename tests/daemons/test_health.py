"""The pages' address: what can be used, and what is refused in one sentence."""

from __future__ import annotations

import socket

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.health import Pages


@pytest.mark.parametrize("listen", ["127.0.0.1", "9470", "127.0.0.1:http", ""])
def test_what_is_no_address_is_refused(listen: str) -> None:
    with pytest.raises(Invalid, match="is not HOST:PORT"):
        Pages(listen, {})


@pytest.mark.parametrize("listen", ["127.0.0.1:70000", "192.0.2.1:9470"])
def test_an_address_that_cannot_be_had_is_refused(listen: str) -> None:
    with pytest.raises(Invalid, match=f"cannot listen on {listen}"):
        Pages(listen, {})


def test_a_port_that_is_taken_is_refused() -> None:
    pages = Pages("127.0.0.1:0", {})
    with pytest.raises(Invalid, match="cannot listen"):
        Pages(pages.address, {})
    pages.close()


def test_a_closed_server_lets_its_port_go() -> None:
    pages = Pages("127.0.0.1:0", {})
    pages.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(pages.address.rpartition(":")[2]))) != 0

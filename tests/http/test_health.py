"""The pages' address: what can be used, and what is refused in one sentence."""

from __future__ import annotations

import socket

import pytest

from nodepool_ocb.api.listener import Listener
from nodepool_ocb.config import ApiSettings
from nodepool_ocb.errors import Invalid
from nodepool_ocb.http.server import Door, Pages
from nodepool_ocb.testing.zookeeper.server import free_port


@pytest.mark.parametrize("listen", ["127.0.0.1", "9470", "127.0.0.1:http", "127.0.0.1:²", ""])
def test_invalid_addresses_are_refused(listen: str) -> None:
    with pytest.raises(Invalid, match="is not HOST:PORT"):
        Pages(listen, {})


@pytest.mark.parametrize("listen", ["127.0.0.1:70000", "192.0.2.1:9470"])
def test_an_address_that_cannot_be_had_is_refused(listen: str) -> None:
    with pytest.raises(Invalid, match=f"cannot listen on {listen}"):
        Pages(listen, {})


def test_a_port_that_is_taken_is_refused() -> None:
    pages = Pages("127.0.0.1:0", {})
    with pytest.raises(
        Invalid, match=r"cannot listen.*see http\.listen, builder\.listen, launcher\.listen, api\.listen"
    ):
        Pages(pages.address, {})
    pages.close()


def test_a_port_of_the_api_that_is_taken_is_refused_with_the_next_step() -> None:
    pages = Pages("127.0.0.1:0", {})
    with pytest.raises(Invalid) as refused:
        Listener(lambda: None, ApiSettings(listen=pages.address))
    pages.close()
    assert str(refused.value) == (
        f"cannot listen on {pages.address}: another process listens there; give each daemon of this host a port of its own;"
        " see api.listen"
    )


def test_a_closed_server_lets_its_port_go() -> None:
    pages = Pages("127.0.0.1:0", {})
    pages.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(pages.address.rpartition(":")[2]))) != 0


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_pages_move_to_another_address_of_the_same_port_or_stay_where_they_were() -> None:
    addresses: list[str | None] = []
    door, port = Door({}, None, addresses.append), free_port()
    door.move(f"127.0.0.1:{port}")
    door.move(f"0.0.0.0:{port}")
    assert answers(port)
    with pytest.raises(Invalid, match="cannot listen"):
        door.move(f"192.0.2.1:{port}")
    assert answers(port)
    door.move(None)
    assert not answers(port)
    assert (addresses[0], len(addresses), addresses[-1]) == (f"127.0.0.1:{port}", 3, None)


def test_pages_that_could_not_be_had_back_are_served_with_the_next_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes the port while they move."""
    door, port = Door({}), free_port()
    door.move(f"127.0.0.1:{port}")
    with monkeypatch.context() as taken:
        taken.setattr("nodepool_ocb.http.server.Pages", lambda *_: _taken())
        with pytest.raises(Invalid):
            door.move(f"0.0.0.0:{port}")
    assert not answers(port)
    door.move(f"127.0.0.1:{port}")
    assert answers(port)
    door.close()


def _taken() -> Pages:
    raise Invalid("another process listens there")

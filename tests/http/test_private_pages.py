"""Private pages against real sockets: TLS with a pinned certificate, and proofs by a key of the cluster."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest

from nodepool_ocb.errors import Unavailable
from nodepool_ocb.http import certificates, connections, logs, proofs
from nodepool_ocb.http.certificates import OwnCertificate, PinnedConnection
from nodepool_ocb.http.connections import CONNECTIONS
from nodepool_ocb.http.logs import AskedPart, LogAccess, LogPart, Unreached
from nodepool_ocb.http.page import PageResponse, PrivatePages
from nodepool_ocb.http.server import Pages
from tests.http.private import CERTIFICATE, KEY, access, get, private

Until = Callable[..., None]


def page(rest: str, query: Mapping[str, str]) -> PageResponse:
    """A log, as daemons serve it."""
    headers = {"Log-Offset": "0", "Log-Size": "4", "Log-Ended": "yes"}
    return PageResponse(200, f"{rest[:1]}{sorted(query)[0][:3]}".encode(), headers)


@pytest.fixture
def pages() -> Iterator[Pages]:
    served = Pages("127.0.0.1:0", {"live": lambda: None}, private(logs=page))
    yield served
    served.close()


def port_of(pages: Pages) -> int:
    return int(pages.address.rpartition(":")[2])


def read(pages: Pages, means: LogAccess) -> object:
    return logs.ask(pages.address, means, AskedPart("x"))


def plainly(pages: Pages, path: str) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port_of(pages), timeout=10.0)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_a_reader_with_a_key_of_the_cluster_reads_over_tls(pages: Pages) -> None:
    assert read(pages, access(pages.address)) == LogPart(b"xoff", 0, 4, True)


def test_plain_http_gets_an_error_that_names_the_way_and_health_is_open(pages: Pages) -> None:
    status, said = plainly(pages, "/logs/x")
    assert (status, b"over TLS" in said, b"nodepool-ocb noderole log" in said) == (403, True, True)
    assert plainly(pages, "/health/live")[0] == 200
    assert get(pages.address, "/health/live", proof="")[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer x",
        proofs.SCHEME,
        f"{proofs.SCHEME} !",
        f"{proofs.SCHEME} " + "A" * 86,
        proofs.proof(proofs.new_key(), CERTIFICATE.digest),
        proofs.proof(KEY, OwnCertificate().digest),
        proofs.proof(KEY, CERTIFICATE.digest).replace(proofs.SCHEME, "Bearer"),
    ],
    ids=[
        "none",
        "other scheme",
        "no proof",
        "odd proof",
        "zeros",
        "other key",
        "proof for another daemon",
        "other word",
    ],
)
def test_a_client_without_a_proof_for_this_daemon_is_refused(pages: Pages, header: str) -> None:
    assert get(pages.address, "/logs/x", proof=header) == (
        403,
        b"this request has no proof by a key of the cluster for the certificate of this daemon\n",
    )


def test_a_reader_with_another_key_or_none_is_told_so(pages: Pages) -> None:
    certificate = access(pages.address).certificates
    other = read(pages, LogAccess(certificate, (proofs.new_key(),)))
    assert other == Unreached(f"{pages.address}: the daemon does not take the key of the cluster")
    assert read(pages, LogAccess(certificate, (), "there is none")) == Unreached(f"{pages.address}: there is none")
    assert read(pages, LogAccess(certificate, ("x",))) != read(pages, access(pages.address))
    unknown = read(pages, LogAccess({}, (KEY,)))
    assert isinstance(unknown, Unreached)
    assert "has registered no certificate" in unknown.reason


def test_a_daemon_with_another_certificate_gets_no_proof() -> None:
    got: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        with OwnCertificate().context.wrap_socket(plain, server_side=True) as secure:
            got.append(secure.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        found = logs.ask(address, access(address), AskedPart("x"))
        serving.join(10.0)
    assert found == Unreached(f"{address}: its certificate is not the one that the daemon has registered")
    assert got == [b""]


def test_after_a_new_key_a_daemon_takes_that_and_the_former_one() -> None:
    new, former, old = (proofs.new_key() for _ in range(3))
    readers: list[tuple[str, ...]] = [(proofs.public(former), proofs.public(old))]
    pages = Pages("127.0.0.1:0", {}, PrivatePages({"logs": page}, CERTIFICATE, lambda: readers[-1]))
    certificate = {pages.address: CERTIFICATE.digest}
    keys = LogAccess(certificate, (new, former))
    assert isinstance(read(pages, keys), LogPart), "the daemon does not know the new one yet"
    readers.append((proofs.public(new), proofs.public(former)))
    assert isinstance(read(pages, keys), LogPart)
    assert isinstance(read(pages, LogAccess(certificate, (former, old))), LogPart), (
        "the reader has not read the new one yet"
    )
    assert isinstance(read(pages, LogAccess(certificate, (old,))), Unreached)
    pages.close()


def test_the_times_of_a_certificate_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, _ = certificates.ALWAYS
    monkeypatch.setattr(certificates, "ALWAYS", (begins, begins.replace(year=1971)))
    past = OwnCertificate()
    pages = Pages("127.0.0.1:0", {}, PrivatePages({"logs": page}, past, lambda: (proofs.public(KEY),)))
    assert isinstance(read(pages, LogAccess({pages.address: past.digest}, (KEY,))), LogPart)
    pages.close()


def test_a_daemon_that_cannot_read_the_keys_of_the_readers_serves_none() -> None:
    def readers() -> tuple[str, ...]:
        raise Unavailable("ZooKeeper is away")

    pages = Pages("127.0.0.1:0", {}, PrivatePages({"logs": page}, CERTIFICATE, readers))
    status, said = get(pages.address, "/logs/x")
    assert (status, b"ZooKeeper is away" in said) == (503, True)
    pages.close()


def test_an_old_version_of_tls_is_refused(pages: Pages) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port_of(pages)), 10.0) as plain, pytest.raises(OSError, match=r"."):
        context.wrap_socket(plain)


def test_a_tls_connection_that_never_begins_is_cut_after_its_time(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", port_of(pages)), 10.0) as client:
        began = time.monotonic()
        client.sendall(certificates.HANDSHAKE)
        assert client.recv(1) == b""
        assert 0.4 < time.monotonic() - began < 9.0


def test_connections_that_wait_within_tls_are_cut_for_new_ones_and_a_reader_is_served(pages: Pages) -> None:
    waiting = []
    for number in range(CONNECTIONS + 4):
        if number % 2:
            client = PinnedConnection("127.0.0.1", port_of(pages), 10.0, CERTIFICATE.digest)
            client.connect()  # and no request
            waiting.append(client.sock)
        else:
            plain = socket.create_connection(("127.0.0.1", port_of(pages)), 10.0)
            plain.sendall(certificates.HANDSHAKE)
            waiting.append(plain)
    assert isinstance(read(pages, access(pages.address)), LogPart)
    for each in waiting:
        each.close()


def test_a_reader_that_does_not_take_its_answer_is_cut_after_its_time(
    monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.5)
    large = b"x" * (64 << 20)
    pages = Pages("127.0.0.1:0", {}, private(logs=lambda *_: PageResponse(200, large)))
    client = PinnedConnection("127.0.0.1", port_of(pages), 10.0, CERTIFICATE.digest)
    before = threading.active_count()
    client.request("GET", "/logs/x", headers={"Authorization": proofs.proof(KEY, CERTIFICATE.digest)})
    taken = client.getresponse()
    ends = time.monotonic() + 10.0
    until(lambda: (taken.read(1), threading.active_count() <= before)[1])  # a byte now and then is too little
    assert time.monotonic() < ends
    client.close()
    pages.close()

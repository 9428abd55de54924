"""The request to the receiver: what counts as taken, and what it never does."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from nodepool_ocb_annealer.webhook import receiver
from tests.annealer.webhook.posters import Receiver


@pytest.mark.parametrize("status", [200, 201, 204])
def test_any_answer_2xx_is_taken(status: int) -> None:
    with Receiver(lambda _: status) as taker:
        assert receiver.post(f"{taker.url}?a=b", b"{}", {"A": "b"}) is None
    (got,) = taker.got
    assert (got.path, got.body, got.headers["A"]) == ("/hook?a=b", b"{}", "b")


@pytest.mark.parametrize("status", [400, 404, 500])
def test_any_other_answer_is_not(status: int) -> None:
    with Receiver(lambda _: status) as taker:
        assert receiver.post(taker.url, b"{}", {}) == f"answers {status}"


@pytest.mark.parametrize("status", [301, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    with Receiver(lambda _: status) as taker:
        why = receiver.post(taker.url, b"{}", {})
    assert [each.path for each in taker.got] == ["/hook"]
    assert why is not None
    assert f"answers {status}, and no redirect is followed; set annealer.webhook.url" in why


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Receiver() as taker:
        assert receiver.post(taker.url, b"{}", {}) is None


def test_a_silent_host_and_an_invalid_name_are_reported_without_the_password() -> None:
    for url in ("http://ann:hunter22@127.0.0.1:1/T0/path", f"http://ann:hunter22@{'x' * 70}.invalid/T0/path"):
        why = receiver.post(url, b"{}", {})
        assert why is not None
        assert why.startswith("does not answer: ")
        assert "hunter22" not in why
        assert "T0" not in why


@pytest.mark.parametrize("drip", [b"", b"X"])
def test_one_that_says_nothing_or_a_letter_now_and_then_is_given_up_in_time(
    drip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "TIMEOUT_SECONDS", 0.3)
    done = threading.Event()

    def dribble(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for _ in range(100):  # and then it hangs up
                if done.wait(0.05):
                    return
                try:
                    connection.sendall(drip)
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=dribble, args=(listener,))
        thread.start()
        began = time.monotonic()
        why = receiver.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
        took = time.monotonic() - began
        done.set()
        thread.join()
    assert why == "did not answer within 0.3 s"
    assert took < 2.0


def test_an_answer_that_never_ends_is_taken_by_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "TIMEOUT_SECONDS", 2.0)  # its status comes before that
    free = threading.Event()

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nx")
            free.wait(20.0)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        assert receiver.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {}) is None
        free.set()
        thread.join()


def test_one_that_took_it_and_then_drips_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "TIMEOUT_SECONDS", 2.0)  # its status comes before that
    done = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")  # 1.0: http.client forgets the socket here
            for _ in range(400):
                if done.wait(0.05):
                    return
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        began = time.monotonic()
        why = receiver.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", {})
        took = time.monotonic() - began
        done.set()
        thread.join()
    assert why is None, "its status is known"
    assert took < 2.0 + 1.7


def test_a_certificate_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    )
    named = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run([*made, "-keyout", key, "-out", cert, *named], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Receiver() as taker:
        taker.server.socket = context.wrap_socket(taker.server.socket, server_side=True)
        url = taker.url.replace("http://127.0.0.1", "https://localhost")
        refused = receiver.post(url, b"{}", {})
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert receiver.post(url, b"{}", {}) is None
        assert receiver.post(url.replace("localhost", "127.0.0.1"), b"{}", {}) is not None, "the name is another"
    assert refused is not None
    assert "certificate verify failed" in refused
    assert len(taker.got) == 1


def test_user_and_password_of_a_url_go_as_basic_authorization() -> None:
    wanted = "Basic " + base64.b64encode(b"ann:p:w@").decode()
    assert receiver.authorization("https://ann:p%3Aw%40@h/x") == wanted
    assert receiver.authorization("https://h/x") is None
    assert {"p%3Aw%40", "p:w@"} <= receiver.secrets("https://ann:p%3Aw%40@h/x")
    with Receiver() as taker:
        url = taker.url.replace("127.0.0.1", "ann:hunter22@127.0.0.1")
        assert receiver.post(url, b"{}", {}) is None
    assert "hunter22" not in str(taker.got[0].headers.get("Host"))

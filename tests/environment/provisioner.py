"""A provisioner for the environment's tests: the machine's half of the API over TLS, and files over HTTP with ranges.

It keeps every request of the agent. Its faults are those of a site: a connection that ends in the middle, a file that changed
on the disk, a server that refuses, no permission to restart.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

JOIN_TOKEN: Final = "ocb_join_secret"
BOOT_TOKEN: Final = "ocb_boot_secret"
OWN_TOKEN: Final = "ocb_own_secret"
NODE: Final = "n1.example.com"
EPOCH: Final = 41


class Provisioner:
    """A context manager; ``files`` is the folder that it serves over HTTP. Times of certificates: from now on."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.files = folder / "docroot"
        self.files.mkdir(parents=True)
        self.host = host
        self.order: dict[str, Any] = {}
        self.adopted_as: str | None = None
        self.permits_restart = True
        self.is_gone = False  # the own token opens nothing: the node is out of service
        self.knows_waits = True  # of a report: the answer has the permission to restart
        self.waited: list[str] = []  # the queries of the reports
        self.refuses_identity = False
        self.lost: list[int] = []  # the statuses of the next reports, whose answers a proxy gives
        self.is_over = False  # each report is refused
        self.cuts: list[int] = []  # each: the next answer with a file ends after so many bytes
        self.busy = 0  # so many of the next requests for a file are refused with 503
        self.spoils = False  # each file that is served has another first byte
        self.said: list[tuple[str, dict[str, Any]]] = []  # path and body of each request to the API
        self.asked: list[str] = []  # of the HTTP server: "GET /PATH RANGE"
        self.certificate = _certificate(folder, host)
        self._servers = [self._server(_Files), self._server(_Api)]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self._servers[1].socket = context.wrap_socket(
            self._servers[1].socket, server_side=True, do_handshake_on_connect=False
        )

    def __enter__(self) -> Provisioner:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def http(self) -> str:
        """The address of the files."""
        return f"http://{self.host}:{self._servers[0].server_port}"

    @property
    def api(self) -> str:
        """The address of the API."""
        return f"https://{self.host}:{self._servers[1].server_port}"

    def arguments(self, mode: str, mac: str, **more: str) -> str:
        """Kernel arguments, as the boot script of an admin node has them."""
        words = {"ocb.api": self.api, "ocb.server": self.http, "ocb.mode": mode, "ocb.mac": mac}
        if mode == "install":
            words |= {"ocb.node": NODE, "ocb.boot": BOOT_TOKEN}
        return " ".join(f"{name}={value}" for name, value in (words | more).items())

    def offer(self, image: Path, form: str = "tar", **keys: Any) -> None:
        """The order to install this image, which lies in ``files``."""
        content = image.read_bytes()
        self.order = {
            "image": [str(image.relative_to(self.files))],
            "checksum": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "size": len(content),
            "format": form,
            "disk": {},
            "layout": {},
            "network": {},
            "nocloud": {"meta-data": f"instance-id: {NODE}\n", "user-data": "#cloud-config\n"},
            "authorized_keys": ["ssh-ed25519 AAAAkey annealer"],
            "state_dir": "/var/lib/nodepool-ocb",
            "epoch": EPOCH,
            "hostname": NODE,
            "wipe": [],
        } | keys

    def reports(self, step: str) -> list[dict[str, Any]]:
        """The reports of this step of the installation."""
        return [body for path, body in self.said if path.endswith("/installation/report") and body["step"] == step]

    def identities(self) -> list[dict[str, Any]]:
        """The bodies of the requests for an identity."""
        return [body for path, body in self.said if path.endswith("/installation/identity")]

    def _server(self, kind: type[_Handler]) -> ThreadingHTTPServer:
        handler = type(kind.__name__, (kind,), {"site": self})
        server = ThreadingHTTPServer((self.host, 0), handler)
        server.daemon_threads = True
        return server


class _Handler(BaseHTTPRequestHandler):
    site: Provisioner
    protocol_version = "HTTP/1.1"
    timeout = 60.0

    def log_message(self, format: str, *args: object) -> None: ...


class _Files(_Handler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        site, wanted = self.site, self.headers.get("Range", "")
        site.asked.append(f"GET {self.path} {wanted}".strip())
        file = site.files / self.path.partition("?")[0].lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        if site.busy:
            site.busy -= 1
            self.send_error(503)
            return
        content = file.read_bytes()
        if site.spoils:
            content = bytes([content[0] ^ 1]) + content[1:]
        first, last = 0, len(content) - 1
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", wanted):
            first, last = int(match[1]), min(int(match[2] or last), last)
        self.send_response(206 if match else 200)
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        piece = content[first : last + 1]
        if site.cuts:
            piece = piece[: site.cuts.pop(0)]
            self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write(piece)


class _Api(_Handler):
    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any] | None) -> None:
        path, _, query = self.path.partition("?")
        self.site.said.append((f"{self.command} {path}", body or {}))
        if query:
            self.site.waited.append(query)
        for pattern, bearer, answer in _ROUTES:
            if re.fullmatch(pattern, f"{self.command} {path}"):
                known = self.headers.get("Authorization") == f"Bearer {bearer}" or not bearer
                status, value = answer(self.site) if known else (401, {"detail": "the token is not known"})
                break
        else:
            status, value = 404, {"detail": "there is no such thing"}
        waits = {"document": _progress(self.site)} if query and self.site.knows_waits else {}
        content = json.dumps({"answer": value, **waits} if status < 300 else value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _registration(site: Provisioner) -> tuple[int, Any]:
    return 200, {"node": site.adopted_as, "token": OWN_TOKEN if site.adopted_as else None, "poll_seconds": 1}


def _report(site: Provisioner) -> tuple[int, Any]:
    if site.lost:
        return site.lost.pop(0), {"detail": "the proxy waits no longer"}
    if site.is_gone:
        return _leave(site)
    return (409, {"detail": "no installation is under way"}) if site.is_over else (200, {})


def _progress(site: Provisioner) -> dict[str, Any]:
    return {"reboot": site.permits_restart, "epoch": EPOCH + 1}


def _leave(site: Provisioner) -> tuple[int, Any]:
    return (404, {"detail": f"node {NODE} does not exist"}) if site.is_gone else (200, _progress(site))


def _identity(site: Provisioner) -> tuple[int, Any]:
    if site.refuses_identity:
        return 409, {"detail": "the boot token was used before"}
    return 200, {"token": OWN_TOKEN, "order": site.order}


_INSTALLATION: Final = f"/v1/nodes/{re.escape(NODE)}/installation"
_ROUTES: Final[list[tuple[str, str, Callable[[Provisioner], tuple[int, Any]]]]] = [
    (
        r"POST /v1/registrations",
        JOIN_TOKEN,
        lambda site: (200, {"secret": "s3cret", "poll_seconds": 1, "mac": site.said[0][1]["macs"][0]}),
    ),
    (r"POST /v1/registrations/[0-9a-f:]+/poll", JOIN_TOKEN, _registration),
    (f"POST {_INSTALLATION}/identity", BOOT_TOKEN, _identity),
    (f"POST {_INSTALLATION}/report", OWN_TOKEN, _report),
    (f"GET {_INSTALLATION}", OWN_TOKEN, _leave),
]


def _certificate(folder: Path, host: str) -> Path:
    """A certificate for this address, which signs itself; its key beside it."""
    file = folder / "server.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-days", "30", "-subj", f"/CN={host}"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext", f"subjectAltName=IP:{host}"]
    subprocess.run(
        [*command, "-keyout", str(folder / "server.key"), "-out", str(file)], check=True, capture_output=True
    )
    return file


def site_archive(folder: Path, provisioner: Provisioner, authorized_keys: str) -> Path:
    """site.cpio, the second initrd of each boot: the material of the site in /etc/ocb."""
    etc = folder / "site" / "etc" / "ocb"
    etc.mkdir(parents=True)
    texts = {
        "ca.pem": provisioner.certificate.read_text(),
        "join-token": JOIN_TOKEN + "\n",
        "api": provisioner.api + "\n",
        "ntp": "",
        "authorized_keys": authorized_keys,
    }
    for name, text in texts.items():
        (etc / name).write_text(text)
    archive = folder / "site.cpio"
    with archive.open("wb") as out:
        names = "\n".join(["etc", "etc/ocb", *(f"etc/ocb/{name}" for name in texts)])
        subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            input=names.encode(),
            stdout=out,
            check=True,
            cwd=folder / "site",
        )
    return archive


def joined(folder: Path, *archives: Path) -> Path:
    """One file with several initrds, each at a multiple of four bytes, as iPXE lays them down."""
    file = folder / "initrds"
    with file.open("wb") as out:
        for archive in archives:
            content = archive.read_bytes()
            out.write(content + b"\0" * (-len(content) % 4))
    return file


def lines(text: str) -> Iterator[str]:
    """The lines of the agent on a console."""
    return (line.removeprefix("ocb: ") for line in text.splitlines() if line.startswith("ocb: "))

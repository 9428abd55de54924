"""Signing in by client certificates, and reads without a token: what each opens, and what it does not."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from nodepool_ocb.api.actor import ANYONE
from nodepool_ocb.config import ApiSettings, ZooKeeperSettings
from nodepool_ocb.errors import Conflict, Invalid
from nodepool_ocb.model import tokens
from nodepool_ocb.operations.history.reading import HistoryRead
from nodepool_ocb.operations.tokens.creating import TokenCreate
from nodepool_ocb.operations.tokens.revoking import TokenRevoke
from tests.api.served import ServedApi, problem

SCRIPT = {"Ocb-Client": "test"}


class Authority:
    """A certificate authority in a folder, with openssl."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.folder, self.ca = folder, folder / "ca.pem"
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
                  "-out", "ca.pem", "-subj", f"/CN={name}", "-days", "30")  # fmt: skip

    def certificate(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                  "-out", f"{name}.csr", "-subj", f"/CN={name}")  # fmt: skip
        self._run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
                  "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _run(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "own", "site")


@pytest.fixture
def secured(zk_settings: ZooKeeperSettings, tmp_path: Path, authority: Authority) -> Iterator[ServedApi]:
    """A server that asks for certificates of the authority."""
    cert, key = authority.certificate("server")
    api = ServedApi(zk_settings, tmp_path / "api", cert=str(cert), key=str(key), client_ca=str(authority.ca))
    yield api
    api.close()


def client(api: ServedApi, authority: Authority, name: str | None) -> httpx.Client:
    """A client with a certificate of this name; with None without one."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if name is not None:
        context.load_cert_chain(*authority.certificate(name))
    return httpx.Client(base_url=api.address, verify=context, timeout=30.0)


def allowed(api: ServedApi, authority: Authority, name: str, role: str = "operator") -> str:
    """Make a token for the certificate that ``client`` takes last; gives its id."""
    pem = (authority.folder / f"{name}.pem").read_text()
    id = api.direct.perform(TokenCreate(name=name, role=tokens.TokenRole(role), certificate=pem)).id
    assert isinstance(id, str)
    return id


def test_a_certificate_is_a_token_with_its_role_its_name_and_its_end(secured: ServedApi, authority: Authority) -> None:
    with client(secured, authority, "vera") as vera:
        status, _, error = problem(vera.get("/v1/nodes"))
        assert (status, error) == (401, "Unauthorized"), "the authority alone opens nothing"
        id = allowed(secured, authority, "vera")
        assert vera.get("/v1/nodes").status_code == 200
        made = vera.put("/v1/deployments/lab", json={}, headers=SCRIPT | {"If-None-Match": "*"})
        assert made.status_code in (200, 201), made.text
        entry = secured.direct.perform(HistoryRead(names=("lab",))).rows[0].record
        assert entry.login == "vera"
        assert problem(vera.post("/v1/tokens", json={"name": "x"}, headers=SCRIPT))[0] == 403
        secured.direct.perform(TokenRevoke(tokens=(id,)))
        assert problem(vera.get("/v1/nodes"))[0] == 401
    with client(secured, authority, None) as stranger:
        assert problem(stranger.get("/v1/nodes"))[0] == 401
        fingerprint = {"Authorization": f"Bearer ocb_{id}_{'A' * 43}"}
        assert problem(stranger.get("/v1/nodes", headers=fingerprint))[0] == 401


def test_a_certificate_of_another_authority_ends_the_connection(
    secured: ServedApi, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other", "other")
    with client(secured, other, "vera") as vera:
        allowed(secured, other, "vera")
        with pytest.raises(httpx.TransportError):
            vera.get("/v1/nodes")
    with client(secured, authority, None) as plain:
        answer = plain.get("/v1/nodes", headers={"Authorization": f"Bearer {secured.token}"})
        assert answer.status_code == 200, "tokens work without a certificate"


def test_a_page_of_another_site_cannot_write_with_the_certificate_of_a_browser(
    secured: ServedApi, authority: Authority
) -> None:
    with client(secured, authority, "olga") as olga:
        allowed(secured, authority, "olga")
        path, create = "/v1/deployments/stolen", {"If-None-Match": "*"}
        assert problem(olga.put(path, json={}, headers=create))[0] == 403
        crossed = create | SCRIPT | {"Sec-Fetch-Site": "cross-site"}
        assert problem(olga.put(path, json={}, headers=crossed))[0] == 403
        assert problem(olga.get("/v1/nodes", headers={"Sec-Fetch-Site": "cross-site"}))[0] == 403
        assert secured.ask("GET", path).status_code == 404


def test_a_token_for_a_certificate_is_made_one_time_from_a_certificate(
    secured: ServedApi, authority: Authority
) -> None:
    authority.certificate("pia")
    id = allowed(secured, authority, "pia")
    with pytest.raises(Conflict, match=f"token {id} has this certificate already"):
        allowed(secured, authority, "pia")
    key = (authority.folder / "pia.key").read_text()
    with pytest.raises(Invalid, match="there is no certificate in it"):
        secured.direct.perform(TokenCreate(name="pia", certificate=key))


def test_open_reads_let_anyone_read_and_write_nothing(zk_settings: ZooKeeperSettings, tmp_path: Path) -> None:
    api = ServedApi(zk_settings, tmp_path, open_reads=True)
    try:
        with httpx.Client(base_url=api.address, timeout=30.0) as stranger:
            assert stranger.get("/v1/nodes").status_code == 200
            assert stranger.get("/v1/session").json()["name"] == ANYONE.name
            assert problem(stranger.put("/v1/deployments/lab", json={}, headers={"If-None-Match": "*"}))[0] == 403
            assert problem(stranger.post("/v1/operations/token/create", json={"fields": {"name": "x"}}))[0] == 403
            reveal = stranger.get("/v1/noderoles/x@y/attributes?reveal=true")
            assert problem(reveal)[0] in (403, 404)
            wrong = {"Authorization": f"Bearer ocb_{'0' * 12}_{'A' * 43}"}
            assert problem(stranger.get("/v1/nodes", headers=wrong))[0] == 401, "a wrong token is no reader"
            assert problem(stranger.get("/v1/nodes", headers={"Host": "evil.example.com"}))[0] == 422
    finally:
        api.close()


def test_reads_are_closed_and_certificates_are_not_asked_for_by_default() -> None:
    assert (ApiSettings().open_reads, ApiSettings().client_ca) == (False, None)

"""Secrets on the command line: set, shown to nobody, listed, and encrypted anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from nodepool_ocb.cli.main import cli
from nodepool_ocb.model import paths
from nodepool_ocb.model.records import Json
from nodepool_ocb.store.client import codec
from nodepool_ocb.store.client.session import Session
from tests.fixtures.commands import Ocb

Ask = Callable[..., Json]
N1 = "n1.example.com"
DB = f"db@{N1}"
SECRET = "hunter22-of-the-shop"

BARCLAMP = """\
barclamp: {name: shop, version: 1}
roles:
  - name: db
    jig: noop
    attribs:
      - {name: password, map: db/password, secret: true, schema: {type: text, required: true, pattern: "/[a-z0-9-]{8,}/"}}
      - {name: name, map: db/name, default: shop}
"""


@pytest.fixture
def key(world: Session, ocb: Ocb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Role db is bound to n1; the configuration names this key file, which is there."""
    assert world.connected
    (tmp_path / "shop.yml").write_text(BARCLAMP)
    (tmp_path / "ocb.yaml").write_text(yaml.safe_dump({"secrets": {"key_file": "secrets.key"}}))
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(tmp_path / "ocb.yaml"))
    file = tmp_path / "secrets.key"
    lines = (f"barclamp import {tmp_path / 'shop.yml'}", f"node bind {N1} db", f"secret keygen {file}")
    for line in lines:
        answer = ocb(*line.split())
        assert answer.exit_code == 0, answer.output
    return file


def stored(session: Session) -> str:
    znode = session.get(paths.user("db", N1))
    assert znode is not None
    return str(codec.attributes(znode)["db"]["password"]["$secret"])


def given(stdin: str, *arguments: str) -> str:
    answer = CliRunner().invoke(cli, arguments, prog_name="nodepool-ocb", input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.mark.usefixtures("key")
def test_a_secret_is_encrypted_before_it_is_written_and_shown_to_nobody(world: Session, ask: Ask) -> None:
    said = given(SECRET + "\n", "noderole", "set", DB, "password=-")
    assert stored(world).startswith("enc:")
    assert SECRET not in said
    assert ask("noderole", "show", DB)["attributes"]["user"] == {"db": {"password": "(secret)"}}
    assert "enc:" not in given("", "noderole", "show", DB)
    assert ask("noderole", "show", DB, "--reveal")["attributes"]["user"] == {"db": {"password": SECRET}}
    assert SECRET not in given("", "noderole", "attributes", DB, "--explain")
    assert f'db/password  "{SECRET}"' in given("", "noderole", "attributes", DB, "db/password", "--reveal")
    assert ask("noderole", "attributes", DB, "--reveal")["attributes"]["db"]["password"] == SECRET


@pytest.mark.usefixtures("key")
def test_the_same_secret_once_more_changes_nothing(world: Session, ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET + "\n")
    for said in ("", "nothing to do"):
        answer = ocb("noderole", "set", DB, f"password=@{tmp_path / 'password'}")
        assert said in answer.stderr, answer.output
        before = stored(world)
    assert stored(world) == before


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("value", ['"UPPER CASE"', "hunter-bare", '{"$secret": "hunter22"}', "secret:hunter22", "17"])
def test_a_secret_that_is_refused_is_not_repeated(ocb: Ocb, ask: Ask, value: str) -> None:
    for line in (("noderole", "set", DB), ("deployment", "set", "lab", "db")):
        answer = ocb(*line, f"password={value}")
        assert answer.exit_code != 0
        assert value not in answer.output
        assert value.strip('"') not in answer.output or value == "17"
    assert ask("noderole", "show", DB)["attributes"]["user"] == {}


@pytest.mark.usefixtures("key")
def test_other_attributes_are_set_beside_a_secret_that_stays_as_it_is(world: Session, ocb: Ocb) -> None:
    given(SECRET, "noderole", "set", DB, "password=-")
    before = stored(world)
    answer = ocb("noderole", "set", DB, 'name="other"')
    assert answer.exit_code == 0, answer.output
    assert stored(world) == before


def test_without_a_key_a_secret_is_refused_and_a_reference_is_not(ocb: Ocb, world: Session, key: Path) -> None:
    key.unlink()
    answer = ocb("noderole", "set", DB, f'password="{SECRET}"')
    assert answer.exit_code == 1
    assert "db/password is secret, and cannot be encrypted here" in answer.stderr
    assert SECRET not in answer.output
    answer = ocb("noderole", "set", DB, "password=secret:vault:apps/shop#password")
    assert answer.exit_code == 0, answer.output
    assert stored(world) == "vault:apps/shop#password"


def test_a_new_key_takes_over_and_then_the_old_one_may_go(ocb: Ocb, ask: Ask, world: Session, key: Path) -> None:
    given(SECRET, "noderole", "set", DB, "password=-")
    assert ocb("deployment", "set", "lab", "db", f'password="{SECRET}"').exit_code == 0
    before = stored(world)
    old, new = key.read_text(), ask("secret", "keygen", str(key))["key"]
    assert [row["state"] for row in ask("secret", "list")] == ["older", "older"]
    assert ocb("secret", "rotate", "--dry-run").exit_code == 10
    assert stored(world) == before
    assert ocb("secret", "rotate").exit_code == 0
    rows = ask("secret", "list")
    assert [(row["name"], row["attribute"], row["key"], row["state"]) for row in rows] == [
        ("db in lab (user)", "db/password", new, "newest"),
        (f"{DB} (user)", "db/password", new, "newest"),
    ]
    assert stored(world).split(":")[2] == before.split(":")[2]  # its id: nothing is outdated
    assert "nothing to do" in ocb("secret", "rotate").stderr
    key.write_text(key.read_text().removesuffix(old))
    assert ask("noderole", "show", DB, "--reveal")["attributes"]["user"]["db"]["password"] == SECRET


def test_what_no_key_here_opens_is_named_and_the_rest_goes_over(ocb: Ocb, ask: Ask, key: Path) -> None:
    given(SECRET, "noderole", "set", DB, "password=-")
    key.unlink()
    assert ocb("secret", "keygen", str(key)).exit_code == 0
    assert [row["state"] for row in ask("secret", "list")] == ["missing"]
    answer = ocb("secret", "rotate")
    assert answer.exit_code == 4
    assert f"{DB} (user) db/password: it was encrypted by key" in answer.stderr


@pytest.mark.usefixtures("key")
def test_what_of_a_secret_is_too_short_to_be_hidden_is_said_once(ocb: Ocb, tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text(
        BARCLAMP.replace(', schema: {type: text, required: true, pattern: "/[a-z0-9-]{8,}/"}', "")
    )
    assert ocb("barclamp", "import", str(tmp_path / "shop.yml")).exit_code == 0
    (tmp_path / "codes").write_text("pin-417\n12\n\nabc\n")
    answer = ocb("noderole", "set", DB, f"password=@{tmp_path / 'codes'}")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr.count("warning: db/password has 2 lines or parts of less than 4 characters") == 1


def test_a_plan_holds_a_reference_and_no_secret_in_plain_text(key: Path, ocb: Ocb, tmp_path: Path) -> None:
    assert key.exists()
    plan = tmp_path / "plan.yaml"
    refused = ocb("noderole", "set", DB, f'db/password="{SECRET}"', "--dry-run", "--save", str(plan))
    assert (refused.exit_code, "db/password is secret, and a plan would hold it" in refused.stderr) == (1, True)
    assert not plan.exists()
    saved = ocb("noderole", "set", DB, "db/password=secret:file:/etc/shop.key", "--dry-run", "--save", str(plan))
    assert (saved.exit_code, SECRET in plan.read_text()) == (10, False), saved.output
    assert ocb("noderole", "set", "--plan", str(plan)).exit_code == 0

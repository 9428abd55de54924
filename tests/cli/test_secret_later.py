"""An attribute that becomes secret when a value stands there in plain text: it is named, hidden, encrypted and restored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import ZooKeeperSettings

Ocb = Callable[..., Result]
N1 = "n1.example.com"
DB = f"db@{N1}"
PLAIN = "plaintext-42"

BARCLAMP = """\
barclamp: {name: shop, version: 1}
roles:
  - name: db
    jig: noop
    attribs:
      - {name: password, map: db/password, schema: {type: str}SECRET}
      - {name: name, map: db/name, default: shop, schema: {type: str}}
"""


@pytest.fixture
def later(ocb: Ocb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Role db is bound to n1, and its password was set in plain text; gives what imports the role with it as a secret."""
    (tmp_path / "ocb.yaml").write_text(yaml.safe_dump({"secrets": {"key_file": "secrets.key"}}))
    monkeypatch.setenv("NODEPOOL_OCB_CONFIG", str(tmp_path / "ocb.yaml"))
    file = tmp_path / "shop.yml"
    file.write_text(BARCLAMP.replace("SECRET", ""))
    for line in (
        "barclamp import {file}", "deployment create lab", "node create n1.example.com --deployment lab",
        "node bind n1.example.com db", f'deployment set lab db password="{PLAIN}"', f'noderole set {DB} password="{PLAIN}"',
        "secret keygen {key}",
    ):  # fmt: skip
        answer = ocb(*line.format(file=file, key=tmp_path / "secrets.key").split())
        assert answer.exit_code == 0, answer.output

    def imported(*more: str) -> Result:
        file.write_text(BARCLAMP.replace("SECRET", ", secret: true"))
        return ocb("barclamp", "import", str(file), *more)

    return imported


SHOWN = (
    "deployment show lab", f"noderole show {DB}", f"noderole attributes {DB} --explain", "history", "events --since 1h",
    "secret list", "export", f'noderole set {DB} name="other" --dry-run', f"noderole unset {DB} password --dry-run",
)  # fmt: skip


def test_the_import_names_the_places_and_nothing_shows_them_any_more(ocb: Ocb, later: Ocb) -> None:
    assert PLAIN in ocb("noderole", "show", DB).output
    answer = later()
    assert "declared as secret now, and stored in plain text: db in lab (user): db/password, db@n1" in answer.stderr
    assert "secret rotate" in answer.stderr
    rows = [line.split() for line in ocb("secret", "list").stdout.splitlines()]
    assert [row[-5] for row in rows if "plain" in row] == ["db/password"] * 2
    for line in SHOWN:
        for form in ("table", "json"):
            found = ocb(*line.split(), "-o", form)
            assert found.exit_code in (0, 4, 10), found.output
            assert PLAIN not in found.output, line
    for line in (f"noderole unset {DB} password", "history"):
        assert PLAIN not in ocb(*line.split()).output, line
    assert "stored in plain text" not in later().stderr, "it is said once"


def test_an_export_names_the_way_and_after_it_restores_the_cluster(
    ocb: Ocb, later: Ocb, zk_settings: ZooKeeperSettings
) -> None:
    later()
    refused = ocb("export")
    assert refused.exit_code == 4
    assert "nodepool-ocb secret rotate" in refused.output
    assert ocb("secret", "rotate").exit_code == 0
    assert "nothing to do" in ocb("secret", "rotate").output
    exported = ocb("export")
    assert exported.exit_code == 0, exported.output
    assert PLAIN not in exported.output

    def elsewhere(*arguments: str, **more: Any) -> Result:
        hosts = f"{zk_settings.hosts}/second"
        return CliRunner().invoke(cli, ["--zookeeper", hosts, *arguments], prog_name="nodepool-ocb", **more)

    assert elsewhere("init").exit_code == 0
    applied = elsewhere("apply", "-f", "-", input=exported.stdout)
    assert applied.exit_code == 0, applied.output
    assert elsewhere("export").stdout == exported.stdout
    assert PLAIN in elsewhere("noderole", "show", DB, "--reveal").output

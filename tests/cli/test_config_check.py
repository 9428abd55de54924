"""``config check``: the file with diskimages and providers is part of the configuration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nodepool_ocb import config
from nodepool_ocb.cli.main import cli
from nodepool_ocb.config import SshSettings
from nodepool_ocb.daemon import preflight
from nodepool_ocb.errors import Invalid

GOOD = "diskimages: [{name: i, formats: [raw], env-vars: {PASSWORD: hidden}}, {name: elsewhere}]\nlabels: [{name: l}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a configuration, and no other configuration around."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "nodepool-ocb.yaml").write_text("builder: {nodepool: images.yaml, secure: secure.yaml}\n")
    (tmp_path / "secure.yaml").write_text("")
    return tmp_path


def check(folder: Path, *arguments: str) -> Result:
    config = str(folder / "nodepool-ocb.yaml")
    return CliRunner().invoke(cli, ["config", "check", "--offline", "--config", config, "-o", "json", *arguments])


def test_the_file_that_the_configuration_names_is_checked(folder: Path) -> None:
    (folder / "images.yaml").write_text(GOOD)
    answer = check(folder)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["nodepool"] == {
        "file": str(folder / "images.yaml"),
        "diskimages": ["i"],
        "providers": [],
        "labels": ["l"],
    }
    assert "hidden" not in answer.output


def test_a_file_that_is_not_there_is_not_missed(folder: Path) -> None:
    answer = check(folder)
    assert answer.exit_code == 0, answer.output
    assert "nodepool" not in json.loads(answer.stdout)


def test_every_fault_of_it_is_told(folder: Path) -> None:
    (folder / "images.yaml").write_text("diskimages: [{name: i, pause: 3}]\nlabel: []\n")
    (folder / "secure.yaml").write_text("diskimages: [{name: j, env-vars: {}}]\n")
    answer = check(folder)
    assert answer.exit_code == 1
    assert f"{folder}/images.yaml:1: diskimages[i].pause: must be true or false, and is 3" in answer.stderr
    assert f"{folder}/images.yaml:2: label: unknown key `label`; did you mean `labels`?" in answer.stderr
    assert f"{folder}/secure.yaml:1: diskimages[j].name: diskimage j does not exist" in answer.stderr


def test_refusals_of_backends_read_as_builders_report_them(folder: Path) -> None:
    (folder / "images.yaml").write_text(
        "diskimages:\n"
        "- {name: i, backend: mmdebstrp, formats: [tar]}\n"
        "- {name: j, backend: mmdebstrap, formats: [qcow2], options: {inclde: []}}\n"
    )
    answer = check(folder)
    assert answer.exit_code == 1
    assert (
        f"{folder}/images.yaml:2: diskimages[i].backend: there is no backend `mmdebstrp`; did you mean `mmdebstrap`?"
        in answer.stderr
    )
    assert (
        f"{folder}/images.yaml:3: diskimages[j].options: inclde: unknown key `inclde`; did you mean `include`?"
        in answer.stderr
    )
    assert "diskimages[j].formats: backend mmdebstrap makes no qcow2" in answer.stderr


def test_providers_that_a_builder_leaves_out_are_warned_of(folder: Path) -> None:
    (folder / "images.yaml").write_text(
        "diskimages: [{name: i, formats: [raw]}]\n"
        "providers:\n"
        "- {name: p, driver: local, directory: here, diskimages: [{name: i}]}\n"
        "- {name: q, driver: locl, diskimages: [{name: i}]}\n"
        "- {name: launchers-only, driver: static}\n"
    )
    answer = check(folder)
    assert answer.exit_code == 0, answer.output
    assert f"{folder}/images.yaml:3: providers[p]: directory: must be an absolute path" in answer.stderr
    assert f"{folder}/images.yaml:4: providers[q]: driver `locl` is not installed" in answer.stderr
    assert "launchers-only" not in answer.stderr


def test_another_file_can_be_checked_in_its_place(folder: Path) -> None:
    (folder / "images.yaml").write_text("nothing: good\n")
    (folder / "other.yaml").write_text(GOOD)
    answer = check(folder, "--nodepool", str(folder / "other.yaml"))
    assert answer.exit_code == 0, answer.output
    assert check(folder, "--nodepool", str(folder / "gone.yaml")).exit_code == 2


def test_a_fault_of_an_inherited_key_has_the_line_of_the_image(folder: Path) -> None:
    (folder / "images.yaml").write_text(
        "diskimages:\n- name: p\n  abstract: true\n  backend: mmdebstrap\n  formats: [qcow2]\n- name: i\n  parent: p\n"
    )
    assert f"{folder}/images.yaml:6: diskimages[i].formats: backend mmdebstrap makes no qcow2" in check(folder).stderr


def test_a_builder_that_would_take_the_annealer_s_port_is_warned_of(folder: Path) -> None:
    (folder / "images.yaml").write_text(GOOD)
    file = folder / "nodepool-ocb.yaml"
    file.write_text(file.read_text() + "http: {listen: '127.0.0.1:9470'}\n")
    assert "would both listen on 127.0.0.1:9470; set builder.listen" in check(folder).stderr
    file.write_text(file.read_text().replace("{nodepool", "{listen: '127.0.0.1:9471', nodepool"))
    assert "builder.listen" not in check(folder).stderr


POOLS = """\
diskimages: [{name: i, formats: [raw]}]
labels: [{name: small}, {name: big}]
providers:
- name: rack
  driver: static
  pools: [{name: main, nodes: [{name: n.example.com, labels: small}]}]
- name: ec2
  driver: aws
  pools: [{name: main, labels: [{name: big, instance-type: t}]}]
"""


def test_the_pools_of_a_launcher_are_listed_with_those_that_are_left_out(folder: Path) -> None:
    (folder / "nodepool.yaml").write_text(POOLS)
    answer = check(folder)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["launcher"] == {
        "file": str(folder / "nodepool.yaml"),
        "pools": ["rack/main"],
        "labels": ["small"],
        "omitted": [
            f"{folder}/nodepool.yaml:7: providers[ec2]: no driver `aws` launches here, so its pools are left out;"
            " no pool here offers big"
        ],
        "refused": [],
    }


def test_a_key_that_launchers_refuse_is_warned_of(folder: Path) -> None:
    (folder / "other.yaml").write_text(POOLS.replace("labels: small", "labels: small, user: ci"))
    answer = check(folder, "--nodepool", str(folder / "other.yaml"))
    assert answer.exit_code == 0, answer.output
    fault = "providers[rack].pools[main].nodes[n.example.com].user: unknown key `user`; did you mean `username`?"
    assert f"warning: {folder}/other.yaml:6: {fault}; launchers refuse the file" in answer.stderr
    launcher = json.loads(answer.stdout)["launcher"]
    assert (launcher["pools"], len(launcher["refused"])) == ([], 1)
    assert fault in launcher["refused"][0]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("", "commands at 127.0.0.1:2181: write zookeeper.hosts into nodepool-ocb.yaml"),
        (
            "zookeeper: {hosts: '127.0.0.1:22181'}\n",
            "is not obeyed: section zookeeper of nodepool-ocb.yaml has 127.0.0.1:22181",
        ),
        ("zookeeper: {hosts: '127.0.0.1:2999'}\n", ""),
    ],
)
def test_other_servers_of_zookeeper_in_the_file_of_pools_are_warned_of(folder: Path, section: str, said: str) -> None:
    (folder / "nodepool.yaml").write_text("zookeeper-servers: [{host: 127.0.0.1, port: 2999}]\n" + POOLS)
    (folder / "nodepool-ocb.yaml").write_text(f"launcher: {{nodepool: nodepool.yaml}}\n{section}")
    answer = check(folder)
    assert answer.exit_code == 0, answer.output
    assert said in answer.stderr
    assert ("zookeeper-servers" in answer.stderr) is bool(said)


def test_a_launcher_that_would_take_another_daemon_s_port_is_warned_of(folder: Path) -> None:
    (folder / "nodepool.yaml").write_text(POOLS)
    file = folder / "nodepool-ocb.yaml"
    file.write_text("builder: {listen: ':9471'}\nhttp: {listen: ':9470'}\n")
    assert (
        "an annealer and a launcher of one host would both listen on :9470; set launcher.listen" in check(folder).stderr
    )
    file.write_text("builder: {listen: ':9471'}\nlauncher: {listen: ':9471'}\nhttp: {listen: ':9470'}\n")
    assert (
        "a builder and a launcher of one host would both listen on :9471; set launcher.listen" in check(folder).stderr
    )
    file.write_text("builder: {listen: ':9471'}\nlauncher: {listen: ':9472'}\nhttp: {listen: ':9470'}\n")
    assert "both listen" not in check(folder).stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be somebody else")
def test_a_configuration_in_a_folder_that_may_not_be_entered_is_said_without_a_traceback(folder: Path) -> None:
    folder.chmod(0o750)
    os.seteuid(65534)
    try:
        with pytest.raises(Invalid, match="cannot be read: Permission denied"):
            config.load(folder / "nodepool-ocb.yaml")
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be somebody else")
def test_a_key_in_a_folder_that_may_not_be_entered_is_told_without_a_traceback(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o700)
    private_key(folder / "closed" / "id")
    settings = SshSettings(key_files=(str(folder / "closed" / "id"),))
    folder.chmod(0o755)
    os.seteuid(65534)
    try:
        assert "is in a folder that may not be entered" in "".join(preflight.wrong(config.Settings(ssh=settings)))
        assert not config.loose_keys(settings)
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can be somebody else")
@pytest.mark.parametrize(
    ("text", "exit_code", "sentence"),
    [
        ("builder: {secure: closed/secure.conf}", 0, ""),
        ("builder: {nodepool: closed/nodepool.yaml}", 1, "closed/nodepool.yaml: cannot be read: Permission denied"),
        (
            "annealer: {log_dir: link}",
            0,
            "annealer.log_dir: .*link cannot be looked at by user 65534: Permission denied",
        ),
    ],
)
def test_what_lies_in_a_folder_that_may_not_be_entered_is_told_without_a_traceback(
    folder: Path, text: str, exit_code: int, sentence: str
) -> None:
    (folder / "images.yaml").write_text(GOOD)
    assert check(folder).exit_code == 0, "so what it takes is imported"
    with TemporaryDirectory() as name:  # pytest's own are closed to all others
        entered = Path(name)
        (entered / "closed").mkdir(mode=0o700)
        (entered / "link").symlink_to(entered / "closed" / "logs")
        (entered / "nodepool-ocb.yaml").write_text(text)
        for each, mode in ((entered, 0o755), (entered / "nodepool-ocb.yaml", 0o644)):
            each.chmod(mode)
        os.seteuid(65534)
        try:
            answer = check(entered)
        finally:
            os.seteuid(0)
    assert answer.exit_code == exit_code, answer.output
    assert "unexpected" not in answer.stderr
    assert re.search(sentence, answer.stderr), answer.stderr


def test_offline_says_that_zookeeper_was_not_asked(folder: Path) -> None:
    assert json.loads(check(folder).stdout)["zookeeper_reached"] is None
    assert "not asked (--offline)" in check(folder, "-o", "table").stdout


def configured(folder: Path, text: str, mode: int = 0o600) -> Result:
    (folder / "nodepool-ocb.yaml").write_text(text)
    (folder / "nodepool-ocb.yaml").chmod(mode)
    return check(folder)


def private_key(file: Path, mode: int = 0o600) -> None:
    """One of ssh."""
    made = ed25519.Ed25519PrivateKey.generate()
    file.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    file.chmod(mode)


def certificate(folder: Path, name: str, days: int = 90) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key; good from a year ago until in so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(
            subject, subject, key.public_key(), 1, now - timedelta(days=365), now + timedelta(days=days)
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ssh: {key_files: [gone]}", "ssh.key_files: none of these exists"),
        ("ssh: {key_files: [good.pem]}", "ssh.key_files: key file "),
        ("ssh: {key_files: [.]}", " is a folder; name a private key in it"),
        ("zookeeper: {hosts: '127.0.0.1:99999'}", "zookeeper.hosts: 127.0.0.1:99999: "),
        ("zookeeper: {hosts: '127.0.0.1:client/ocb', allow_plaintext: true}", "zookeeper.hosts: "),
        ("zookeeper: {hosts: '127.0.0.1:2181/a/../b'}", "zookeeper.hosts: "),
        (
            "http: {listen: '127.0.0.1:65536'}",
            "http.listen: must be an address such as 127.0.0.1:8005, with a port up to 65535",
        ),
        ("builder: {listen: '127.0.0.1:99999'}", "builder.listen: must be an address"),
        ("zookeeper: {password: hidden}", "zookeeper.password: is of no use without zookeeper.username"),
        ("zookeeper: {username: ocb}", "zookeeper.username: is of no use without zookeeper.password"),
        ("zookeeper: {hosts: '192.0.2.1:2181'}", "zookeeper.hosts: 192.0.2.1 is remote"),
        ("zookeeper: {tls: {ca: gone.pem}}", "zookeeper.tls.ca: "),
        ("zookeeper: {tls: {ca: nodepool-ocb.yaml}}", "there is no certificate in it"),
        ("zookeeper: {tls: {ca: good.pem, cert: good.pem}}", "cert and key belong together"),
        ("zookeeper: {tls: {ca: good.pem, cert: good.pem, key: other.key}}", "are no certificate and its key"),
        ("zookeeper: {tls: {ca: old.pem}}", "old.pem: it was good until"),
        ("zookeeper: {tls: {ca: good.pem, cert: old.pem, key: old.key}}", "zookeeper.tls.cert: "),
    ],
)
def test_what_a_daemon_would_miss_is_told_before_it_starts(folder: Path, text: str, sentence: str) -> None:
    certificate(folder, "good")
    certificate(folder, "other")
    certificate(folder, "old", days=-1)
    answer = configured(folder, text)
    assert answer.exit_code == 1, answer.output
    assert sentence in answer.stderr
    assert "hidden" not in answer.output


def test_a_configuration_that_lacks_nothing_is_told_nothing(folder: Path) -> None:
    certificate(folder, "good")
    private_key(folder / "id")
    answer = configured(
        folder,
        "zookeeper: {username: ocb, password: hidden, tls: {ca: good.pem, cert: good.pem, key: good.key}}\n"
        f"ssh: {{key_files: [id]}}\nannealer: {{log_dir: {folder}/logs}}\n",
    )
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert not (folder / "logs").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ssh: {key_files: [loose]}", "may be used by others than its owner"),
        ("{}", "there is no key to log in to machines with"),
        ("annealer: {log_dir: loose/runs}", "loose is no directory; runs go on without logs"),
        (
            "zookeeper: {username: ocb, password: hidden}",
            "nodepool-ocb.yaml holds a password, and everybody may read it",
        ),
        ("builder: {secure: loose}", "loose holds a password, and everybody may read it"),
        ("zookeeper: {tls: {ca: soon.pem}}", "soon.pem: it is good until"),
    ],
)
def test_what_a_daemon_would_bear_is_warned_of(folder: Path, text: str, sentence: str) -> None:
    certificate(folder, "soon", days=3)
    private_key(folder / "loose", 0o644)
    answer = configured(folder, text, mode=0o644)
    assert answer.exit_code == 0, answer.output
    assert sentence in answer.stderr
    assert "hidden" not in answer.output


@pytest.mark.parametrize(
    ("kind", "sentences"),
    [
        ("annealer", ["may be used by others than its owner", "loose is no directory", "soon.pem: it is good until"]),
        ("builder", ["soon.pem: it is good until"]),
    ],
)
def test_a_daemon_s_check_warns_of_what_one_of_its_kind_would_bear(
    folder: Path, kind: str, sentences: list[str]
) -> None:
    certificate(folder, "soon", days=3)
    private_key(folder / "loose", 0o644)
    (folder / "images.yaml").write_text("{}")
    (folder / "nodepool-ocb.yaml").write_text(
        "ssh: {key_files: [loose]}\nannealer: {log_dir: loose/runs}\nzookeeper: {tls: {ca: soon.pem}}\n"
        "builder: {nodepool: images.yaml}\n"
    )
    program = Path(sys.executable).with_name(f"nodepool-ocb-{kind}")
    command = [program, "--config", folder / "nodepool-ocb.yaml", "--check"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    lines = said.stderr.splitlines()
    assert len(lines) == len(sentences), said.stderr
    for line, sentence in zip(lines, sentences, strict=True):
        assert line.startswith(f"nodepool-ocb-{kind}: warning: ")
        assert sentence in line


@pytest.mark.parametrize(
    "text",
    [
        "zookeeper: {username: ocb, password: 918273645}",
        "zookeeper: {username: ocb, password: 9182.73645}",
        "zookeeper: {username: ocb, password: [918273645]}",
        "zookeeper: {username: ocb, pasword: 918273645}",
        "zookeeper: username:ocb,password:918273645",
        "zookeeper: ocb:918273645@127.0.0.1:2181",
        "zookeeper: {username: ocb, password: *x918273645}",
        "zookeeper:\n  username: ocb\n  password: *x918273645\n",
        "zookeeper:\n  password:\n    *x918273645\n",
        "zookeeper:\n  password:\n    !x918273645 y\n",
        "zookeeper:\n  password: '918273645\n",
        "zookeeper:\n  password: @918273645\n",
        "zookeeper: {username: ocb, password: !918273645 x}",
        "zookeeper: {username: ocb, password: '918273645'}",
        "zookeeper: {username: ocb, password: '918273645', allow_plaintext: 3}",
        "password: 918273645",
    ],
)
@pytest.mark.parametrize("form", ["json", "yaml", "table"])
def test_no_password_is_printed_whatever_is_wrong_with_it(folder: Path, text: str, form: str) -> None:
    (folder / "nodepool-ocb.yaml").write_text(text)
    answer = check(folder, "-o", form)
    assert "918273645" not in answer.output
    assert "73645" not in answer.output

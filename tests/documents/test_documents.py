"""Documents and the sentences about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodepool_ocb import config
from nodepool_ocb.documents import document, validation
from nodepool_ocb.documents.schema import faults_in_value, valid_schema
from nodepool_ocb.errors import Invalid


def problems(text: str, schema: str = "config.json") -> list[str]:
    with pytest.raises(Invalid) as caught:
        validation.validate(document.load(text, "f.yaml"), schema)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("anealer: {}", "f.yaml:1: anealer: unknown key `anealer`; did you mean `annealer`?"),
        ("annealer:\n  slots: many", 'f.yaml:2: annealer.slots: must be a whole number, and is text "many"'),
        ("annealer:\n  slots: 0", "f.yaml:2: annealer.slots: must be at least 1, and is 0"),
        ("annealer: []", "f.yaml:1: annealer: must be a mapping, and is a list"),
        ("log: {level: warn}", 'f.yaml:1: log.level: must be one of debug, info, warning, error, and is text "warn"'),
        ("admin_domain: Example!", "f.yaml:1: admin_domain: must be a domain such as example.com"),
        ("ssh:\n  key_files:\n    - a\n    - 7", "f.yaml:4: ssh.key_files[1]: must be text, and is 7"),
        ("http: {x: 1}", "f.yaml:1: http.x: unknown key `x`; known here: listen"),
        ("- a", "f.yaml:1: the document must be a mapping or nothing, and is a list"),
    ],
)
def test_a_fault_is_told_with_file_line_key_and_what_was_meant(text: str, sentence: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(sentence)


@pytest.mark.parametrize(
    ("schema", "there", "text"),
    [
        ("config.json", "level", "log: {level: info, levels: x}"),
        ("config.json", "annealer", "annealer: {}\nanealer: {}"),
        ("strategy.json", "critical", "groups: [{name: a, critical: true, crtical: true}]"),
        ("nodepool.json", "labels", "labels: []\nlabel: []"),
        ("barclamp.json", "requires", "barclamp: {name: b}\nroles: [{name: r, jig: noop, requires: [], require: []}]"),
    ],
)
def test_a_known_key_that_is_there_is_not_what_an_unknown_one_means(schema: str, there: str, text: str) -> None:
    (unknown,) = [problem for problem in problems(text, schema) if "unknown key" in problem]
    assert "did you mean" not in unknown
    meant = [problem for problem in problems(text.replace(f"{there}: ", "x: ", 1), schema) if "did you mean" in problem]
    assert any(f"`{there}`" in problem for problem in meant)


def test_all_faults_of_a_document_are_told_in_order() -> None:
    found = problems("ssh: {pool: x}\nannealer:\n  slot: 1\n  sweep_seconds: -1\n")
    assert [problem.split(":")[1] for problem in found] == ["1", "3", "4"]


def test_items_are_called_by_their_names() -> None:
    text = "barclamp: {name: b}\nroles:\n  - {name: r, jig: noop, flags: implicit}\n"
    (problem,) = problems(text, "barclamp.json")
    assert problem == 'f.yaml:3: roles[r].flags: must be a list or nothing, and is text "implicit"'


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a: \xff\n", "f.yaml:1: is not UTF-8"),
        (b"a: 1\n" * 300_000, "f.yaml: is larger than 1 MiB"),
        (b"a: [", "is not YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "f.yaml").write_bytes(data)
    with pytest.raises(Invalid) as caught:
        document.load(tmp_path / "f.yaml")
    assert len(caught.value.problems) == 1
    assert sentence in caught.value.problems[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"gone\.yaml: cannot be read: No such file"):
        document.load(tmp_path / "gone.yaml")


def test_a_schema_is_checked_itself() -> None:
    assert valid_schema({"type": "array"}) is None
    assert valid_schema({"type": "arr"}) is not None
    assert faults_in_value({"type": ["string", "number"]}, None) == ["must be text or a number, and is nothing"]


# -- the configuration --


def test_an_annealer_runs_ten_at_a_time_unless_it_is_told_otherwise() -> None:
    assert config.AnnealerSettings().slots == 10
    assert config.AnnealerSettings(slots=3).slots == 3


def test_without_a_file_everything_has_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "PLACES", (tmp_path,))
    assert config.load() == config.Settings()


def test_a_file_is_found_and_relative_names_count_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "PLACES", (tmp_path,))
    (tmp_path / config.NAME).write_text(
        "zookeeper:\n  hosts: zk:2281\n  tls: {ca: ca.pem}\n"
        "ssh: {key_files: [keys/id]}\nannealer: {slots: 3, log_dir: null}\n"
    )
    settings = config.load()
    assert settings == config.load(tmp_path)
    assert settings.zookeeper.tls == config.TlsSettings(ca=str(tmp_path / "ca.pem"))
    assert settings.ssh.key_files == (str(tmp_path / "keys/id"),)
    assert (settings.annealer.slots, settings.annealer.log_dir) == (3, None)
    assert settings.annealer.probe_seconds == 60.0


def test_the_shipped_file_says_the_defaults() -> None:
    shipped = Path(__file__).parents[2] / "etc" / config.NAME
    settings, defaults = config.load(shipped), config.Settings()
    assert (settings.zookeeper, settings.annealer, settings.ssh, settings.log) == (
        defaults.zookeeper,
        defaults.annealer,
        defaults.ssh,
        defaults.log,
    )


def test_schema_and_settings_know_the_same_keys() -> None:
    import json
    from importlib.resources import files

    schema = json.loads((files("nodepool_ocb_schemas") / "config.json").read_text())
    assert set(schema["properties"]) == set(config.Settings.__struct_fields__) - {
        "file"
    }  # the file itself, no key of it
    for name, default in ((each, getattr(config.Settings(), each)) for each in config.Settings.__struct_fields__):
        if hasattr(default, "__struct_fields__"):
            assert set(schema["properties"][name]["properties"]) == set(default.__struct_fields__), name


def test_what_is_there_twice_in_a_list_is_named() -> None:
    schema = {"type": "array", "uniqueItems": True}
    assert faults_in_value(schema, ["a", "b", "c", "b"]) == ['holds text "b" twice; remove one of them']
    assert faults_in_value(schema, [1, {"x": 2}, {"x": 2.0}]) == ["holds a mapping twice; remove one of them"]


def test_a_duplicate_key_with_equal_values_is_a_warning_if_lenient_and_an_error_if_not() -> None:
    text = "a: 1\na: 1\n---\nb: 2\nb: 3\n"
    one, two = (part + "\n" for part in text.split("\n---\n"))
    sentence = "f.yaml:2: a: key is there twice with one value, first in line 1; remove one of them"
    assert document.load(one, "f.yaml", lenient=True).warnings == (sentence,)
    for read in (document.load, document.load_all):
        with pytest.raises(Invalid) as caught:
            read(one, "f.yaml")
        assert list(caught.value.problems) == [sentence]
        with pytest.raises(Invalid, match=r"f\.yaml:2: b: key is there twice, first in line 1"):
            read(two, "f.yaml", lenient=True)

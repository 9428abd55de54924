"""Attributes on their way to a script and back: through the real commands, and nothing changes its type."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodepool_ocb.jigs.ssh import attributes

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = TEXT | st.sampled_from(["", "/", "%", ".", "..", "a/b", "%2F", "\t", "\n", "-n", "0", "ü"])
NUMBER_LIKE = st.sampled_from(
    ["OK", "cafe", "ENABLED", "1e3", "0x10", "012", "true", "null", "1_000", " 1", "-0", "\\n", "%s"]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
JSON = st.recursive(
    SCALARS | NUMBER_LIKE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)
SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def command(name: str, run: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    file = files("nodepool_ocb.jigs.ssh").joinpath(f"{name}.sh")
    environment = {"PATH": os.environ["PATH"], "OCB_RUN": f"{run}/run"}
    return subprocess.run(["sh", str(file), *arguments], env=environment, capture_output=True, check=False, **options)


def walk(value: Any, path: tuple[str, ...] = ()) -> Any:
    yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from walk(member, (*path, str(key)))


@SLOW
@given(OBJECTS, st.data())
def test_read_attribute_finds_every_value_as_it_is(tmp_path: Path, sent: dict[str, Any], data: st.DataObject) -> None:
    (tmp_path / "run.tree").write_bytes(attributes.tree(sent))
    keys, value = data.draw(st.sampled_from(list(walk(sent))))
    path = "/".join(map(attributes.segment, keys))
    if isinstance(value, dict | list):
        read = command("read_attribute", tmp_path, "--keys", path)
        names = [str(key) for key in (value if isinstance(value, dict) else range(len(value)))]
        assert read.stdout.decode() == "".join(f"{attributes.segment(name)}\n" for name in names)
    else:
        read = command("read_attribute", tmp_path, path)
        as_text = (
            value if isinstance(value, str) else {None: "null", True: "true", False: "false"}.get(value, repr(value))
        )
        if value in (0, 1) and not isinstance(value, bool | str):
            as_text = repr(value)
        assert read.stdout == as_text.encode() + b"\n"
    assert read.returncode == 0


@given(st.lists(KEYS, min_size=1))
def test_a_path_names_its_keys_again(keys: list[str]) -> None:
    assert attributes.keys("/".join(map(attributes.segment, keys))) == keys


@SLOW
@given(TEXT.filter(lambda text: "\0" not in text) | NUMBER_LIKE, st.sampled_from(["a", "a/b", "l/0", "l/2", "n/%2F/%"]))
def test_what_write_attribute_gets_as_text_comes_back_as_this_text(tmp_path: Path, text: str, path: str) -> None:
    (tmp_path / "run.written").unlink(missing_ok=True)
    assert command("write_attribute", tmp_path, path, text).returncode == 0
    value: Any = attributes.apply({"l": [1, 2]}, (tmp_path / "run.written").read_bytes())
    for key in attributes.keys(path):
        value = value[int(key)] if isinstance(value, list) else value[key]
    assert value == text
    assert isinstance(value, str)


@SLOW
@given(OBJECTS)
def test_json_comes_back_with_its_types(tmp_path: Path, value: dict[str, Any]) -> None:
    (tmp_path / "run.written").unlink(missing_ok=True)
    assert command("write_attribute", tmp_path, "--json", "a", input=json.dumps(value).encode()).returncode == 0
    back = attributes.apply({}, (tmp_path / "run.written").read_bytes())["a"]
    assert json.dumps(back) == json.dumps(value)


def test_sent_data_stays_unchanged() -> None:
    sent = {"a": {"b": [1]}}
    assert attributes.apply(sent, b"t 1 a/b/0\nx\nt 1 c\ny\n") == {"a": {"b": ["x"]}, "c": "y"}
    assert sent == {"a": {"b": [1]}}
    assert attributes.apply(sent, b"") is sent


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (b"j 1 a\n{\n", "write_attribute a: not JSON"),
        (b"j 3 a\nNaN\n", "write_attribute a: not JSON"),
        (b"t 1 a\n\xff\n", "write_attribute a: not UTF-8"),
        (b"t 1 l/7\nx\n", "'7' is no index in a list of 1, nor the next"),
        (b"t 1 l/x\nx\n", "'x' is no index in a list of 1"),
        (b"j 120 a\n" + b"[" * 60 + b"]" * 60 + b"\n", "deeper than 50 levels"),
        (b"j 200000 a\n" + b"[" * 200_000 + b"\n", "deeper than 50 levels"),
        (b"t 1 " + b"a/" * 60 + b"a\nx\n", "deeper than 50 levels"),
        (b"t 100 a\nx\n", "damaged"),
        (b"t 1", "damaged"),
        (b"nonsense\n\n", "damaged"),
    ],
)
def test_what_makes_no_sense_is_said(written: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")):
        attributes.apply({"l": [1]}, written)


def test_the_commands_say_how_they_are_used(tmp_path: Path) -> None:
    (tmp_path / "run.tree").write_bytes(attributes.tree({"a": {"b": 1}}))
    assert command("read_attribute", tmp_path).returncode == 64
    assert command("write_attribute", tmp_path).returncode == 64
    assert command("write_attribute", tmp_path, "", "x").returncode == 64
    assert command("read_attribute", tmp_path, "a").returncode == 2
    assert command("read_attribute", tmp_path, "--keys", "a/b").returncode == 2
    assert command("read_attribute", tmp_path, "none").returncode == 1
    assert command("read_attribute", tmp_path, "none", "x").stdout == b"x\n"

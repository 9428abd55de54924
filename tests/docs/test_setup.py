"""``tools/setup`` installs Python packages with uv by the settings of pip, and repeats what was interrupted. Both are stubs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

SETUP: Final = Path(__file__).parents[2] / "tools/setup"
PYTHON: Final = """#!/bin/sh
case "$*" in
"-m venv --clear .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
--version) echo Python 3.12.0 ;;
*"config list") cat settings ;;
*"install uv") [ -e uv ] && cp uv .venv/bin/uv ;;
*--editable*) echo pip >>log && [ ! -e broken ] ;;
esac
"""
UV: Final = "#!/bin/sh\n[ ! -e broken ] && { env | grep -E '^(UV_|SSL_CERT_FILE)' | sort; echo uv; } >>log\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With ``settings`` that pip lists, and a ``log`` of installations; they fail while it has ``broken``."""
    (tmp_path / "tools").mkdir()
    shutil.copy(SETUP, tmp_path / "tools/setup")
    for name, text in {"bin/python3": PYTHON, "bin/dpkg-query": "#!/bin/sh\necho installed\n", "uv": UV}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    for name in ("setup.cfg", "pyproject.toml", "settings", "log"):
        (tmp_path / name).touch()
    return tmp_path


def run(repository: Path, timeout_seconds: float = 20.0) -> tuple[int, list[str]]:
    """The exit code, and the new lines of the log."""
    before = len((repository / "log").read_text())
    path = f"{repository}/bin:{os.environ['PATH']}"
    command = [repository / "tools/setup"]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, timeout=timeout_seconds, check=False)
    return done.returncode, (repository / "log").read_text()[before:].splitlines()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", ["uv"]),
        (
            "global.constraint='/etc/c.txt'\nglobal.timeout='9'\n:env:.disable-pip-version-check='1'\n",
            ["UV_CONSTRAINT=/etc/c.txt", "uv"],
        ),
        (
            ":env:.find-links='/own'\nglobal.extra-index-url='\\nhttps://a\\nhttps://b'\nglobal.find-links='/a /b'\n",
            ["UV_FIND_LINKS=/own", "UV_INDEX=https://a https://b", "UV_INDEX_STRATEGY=unsafe-best-match", "uv"],
        ),
        ("global.find-links='/a\\n/b'\n", ["UV_FIND_LINKS=/a,/b", "uv"]),
        (
            "global.index-url='https://i/simple'\ninstall.index-url='https://j/simple'\nglobal.cert='/ca.pem'\n",
            ["SSL_CERT_FILE=/ca.pem", "UV_DEFAULT_INDEX=https://j/simple", "uv"],
        ),
        (":env:.no-index='1'\n", ["pip"]),
        ("global.proxy='http://p:1'\n", ["pip"]),
    ],
    ids=["none", "a constraint", "the environment wins", "two places", "an index", "no index", "a proxy"],
)  # fmt: skip
def test_uv_has_the_settings_of_pip_or_does_not_install(repository: Path, settings: str, expected: list[str]) -> None:
    (repository / "settings").write_text(settings)
    assert run(repository) == (0, expected)


def test_pip_installs_where_there_is_no_uv(repository: Path) -> None:
    (repository / "uv").unlink()
    assert run(repository) == (0, ["pip"])


def test_an_interrupted_installation_is_repeated_also_for_the_former_packages(repository: Path) -> None:
    assert run(repository) == (0, ["uv"])
    assert run(repository) == (0, []), "nothing is to be done"
    (repository / "setup.cfg").write_text("[options]\n")
    (repository / "broken").touch()
    assert run(repository) == (1, ["pip"])
    (repository / "broken").unlink()
    (repository / "setup.cfg").write_text("")
    assert run(repository) == (0, ["uv"])


def test_a_second_setup_waits_for_the_first_one_also_after_a_change_of_the_packages(repository: Path) -> None:
    own = os.open(repository, os.O_RDONLY)
    try:
        fcntl.flock(own, fcntl.LOCK_EX)
        with pytest.raises(subprocess.TimeoutExpired):
            run(repository, timeout_seconds=0.3)
    finally:
        os.close(own)
    assert (repository / "log").read_text() == ""

"""What the pages for people promise about the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodepool_ocb import config, errors
from nodepool_ocb.config import ApiSettings, BuilderSettings, ConfigSection, HttpSettings, LauncherSettings, Settings
from nodepool_ocb.documents.schema import schema_file
from nodepool_ocb.engine.readiness import Code
from nodepool_ocb.images.faults import LAUNCH_KEYS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "*/README.md", "etc/**/*.md") for page in ROOT.glob(pattern)
)


def test_the_shipped_configuration_is_the_default_one() -> None:
    shipped = config.load(ROOT / "etc/nodepool-ocb.yaml")
    builder = replace(BuilderSettings(), nodepool=str(ROOT / "etc/nodepool.yaml"), listen="127.0.0.1:9471")
    launcher = replace(LauncherSettings(), nodepool=str(ROOT / "etc/nodepool.yaml"), listen="127.0.0.1:9472")
    assert replace(shipped, file=None) == replace(
        Settings(),
        http=HttpSettings(listen="127.0.0.1:9470"),
        builder=builder,
        launcher=launcher,
        api=ApiSettings(pages="127.0.0.1:9473"),
    )


def keys(section: type[ConfigSection]) -> Iterator[str]:
    for name in section.__struct_fields__:
        if name != "file":  # it says where the others were read
            yield name
        default = getattr(section(), name)
        if isinstance(default, ConfigSection):
            yield from keys(type(default))


@pytest.mark.parametrize("key", [*keys(Settings), *keys(config.TlsSettings)])
def test_the_shipped_configuration_names_every_key(key: str) -> None:
    assert re.search(rf"^\s*(# +)?{key}:", (ROOT / "etc/nodepool-ocb.yaml").read_text(), re.MULTILINE)


def nodepool_keys() -> Iterator[tuple[str, str]]:
    """The keys of a nodepool.yaml at the top and one level below, and those of pools, each with its page."""
    schema = schema_file("nodepool.json")
    pool = schema["$defs"]["pool"]
    parts = [("images", schema), ("images", schema["properties"]["diskimages"]["items"])]
    parts += [("pool", schema["properties"]["labels"]["items"]), ("pool", pool)]
    parts += [("pool", pool["properties"][section]["items"]) for section in ("labels", "nodes")]
    of_launchers = {"rate", "cloud", "region-name", *LAUNCH_KEYS} - {"max-concurrency", "priority"}
    for key in schema["$defs"]["provider"]["properties"]:
        yield "pool" if key in of_launchers else "images", key
    yield from ((page, key) for page, part in parts for key in part["properties"])


@pytest.mark.parametrize(("page", "key"), sorted({*nodepool_keys()}))
def test_a_page_names_each_key_of_a_nodepool_yaml(page: str, key: str) -> None:
    assert f"`{key}`" in (ROOT / f"docs/{page}.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_the_tests_that_the_promises_name_exist() -> None:
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    promises = (ROOT / "docs/promises.md").read_text()
    names, paths = re.findall(r"`(test_\w+)`", promises), re.findall(r"`(tests/[\w/.]+)`", promises)
    assert len(names) > 30
    assert len(paths) > 1
    for named in names:
        assert f"def {named}(" in written, named
    for path in paths:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("daemon", ["annealer", "builder", "launcher"])
def test_the_modules_that_the_page_of_a_daemon_names_exist(daemon: str) -> None:
    rows = re.findall(r"^\| `.+$", (ROOT / daemon / "README.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z_]+(?:/[a-z_]*)*)`", row)}
    assert len(names) > 15
    folders = (ROOT / daemon / f"nodepool_ocb_{daemon}", ROOT / "nodepool_ocb")
    existing = {name for name in names for at in folders if (at / name).is_dir() or (at / f"{name}.py").is_file()}
    assert names == existing


def test_every_promise_names_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", (ROOT / "docs/promises.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 19))
    assert all("`" in tests or tests == "storm" for _, tests in rows)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index]
    assert missing == ["README.md"]


@pytest.mark.parametrize("code", Code)
def test_operators_find_every_reason(code: Code) -> None:
    assert re.search(rf"\b{code}\b", (ROOT / "docs/operations.md").read_text())


FAMILY = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OcbError)]


@pytest.mark.parametrize("error", FAMILY)
def test_the_page_of_commands_names_every_exit_code(error: type[errors.OcbError]) -> None:
    assert re.search(rf"^\| {error.exit_code} \|", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)

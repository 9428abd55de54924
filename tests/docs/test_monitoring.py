"""The shipped alerts and dashboard: each metric exists, each alert has its reason in a page, promtool accepts all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest
import yaml

from nodepool_ocb.engine import selection
from tests.docs.pages import ROOT

RULES: Final = ROOT / "etc/prometheus/nodepool-ocb.rules.yml"
TESTS: Final = ROOT / "etc/prometheus/nodepool-ocb.rules.test.yml"
DASHBOARD: Final = ROOT / "etc/grafana/nodepool-ocb.json"
STATIC: Final = ROOT / "nodepool_ocb/api/page/static"
FILTERED: Final = ("matrix", "nodes")  # the views with a selector in their address
PROMTOOL_SECONDS: Final = 60
_METRIC: Final = re.compile(r"\bnodepool_ocb_\w+")
_COMMAND: Final = re.compile(r"`nodepool-ocb ([a-z]+)(?: ([a-z]+))?")


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    """The queries of the dashboard, with values for its variables."""
    for panel in panels():
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*")


def served() -> dict[str, set[str]]:
    """The metrics of the page, each with its labels."""
    rows = re.findall(
        r"^\| `(nodepool_ocb_\w+)` \| (\w+) \| ([^|]*) \|", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE
    )
    found: dict[str, set[str]] = {}
    for name, kind, labels in rows:
        known = {"job", "instance", *re.findall(r"`(\w+)`", labels)}
        names = [f"{name}_{part}" for part in ("bucket", "count", "sum")] if kind == "histogram" else [name]
        found |= {each: known | {"le"} if each.endswith("_bucket") else known for each in names}
    return found


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in alerts()), *expressions()])
def test_each_query_asks_for_metrics_and_labels_that_daemons_serve(expression: str) -> None:
    metrics, known = _METRIC.findall(expression), served()
    assert metrics
    assert not set(metrics) - known.keys()
    labels = {label for part in re.findall(r"\bby \(([^)]*)\)", expression) for label in part.split(", ")}
    labels |= set(re.findall(r"[{,](\w+)=", expression))
    assert labels <= set.union(*(known[each] for each in metrics))


def test_each_alert_has_its_reason_in_the_page_and_each_reason_has_an_alert() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    table = page[page.index("deserve an alert") :].split("\n\n")[1]
    explained = {each for line in table.splitlines()[2:] for each in _METRIC.findall(line.split("|")[1])}
    asked = {each for rule in alerts() for each in _METRIC.findall(rule["expr"])}
    assert explained == asked


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_and_names_commands_that_exist(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert {*rule["annotations"]} == {"summary", "action", "page"}
    page = (ROOT / "docs/commands.md").read_text()
    for noun, verb in _COMMAND.findall(rule["annotations"]["action"]):
        assert f"Usage: nodepool-ocb {noun} {verb}".strip() in page


def links() -> Iterator[tuple[str, str]]:
    """The links to the page, each with the text that stands for the address of a server."""
    yield from ((rule["annotations"]["page"], "{{ $externalLabels.nodepool_ocb_page }}") for rule in alerts())
    yield from ((link["url"], "${page}") for panel in panels() for link in panel["links"])


@pytest.mark.parametrize(("link", "server"), [*links()])
def test_each_alert_and_each_panel_leads_to_a_view_of_the_page_with_a_filter_that_it_reads(
    link: str, server: str
) -> None:
    assert link.startswith(f"{server}/#/")
    place, _, query = link.removeprefix(f"{server}/#/").partition("?")
    view = place.partition("/")[0]
    assert re.search(rf"^  {view}: {{ show: ", (STATIC / "main.js").read_text(), re.MULTILINE)
    for name, value in parse_qsl(query, strict_parsing=True) if query else ():
        assert (name, view in FILTERED) == ("l", True)
        selection.parse(value)
    assert (view in FILTERED) or not query


def test_each_panel_has_a_link_and_the_dashboard_asks_for_the_address() -> None:
    assert all(len(panel["links"]) == 1 for panel in panels())
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    assert "page" in {each["name"] for each in variables if each["type"] == "textbox"}


def test_the_panels_of_the_dashboard_have_their_own_places() -> None:
    places = [panel["gridPos"] for panel in panels()]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert len({panel["id"] for panel in panels()}) == len(places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """promtool of this host, or of Debian's package, which is unpacked and not installed."""
    if (found := shutil.which("promtool")) is not None:
        return found
    folder = tmp_path_factory.mktemp("prometheus")
    folder.chmod(0o755)
    loaded = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True)
    if loaded.returncode:
        pytest.skip(f"apt-get cannot download Debian's package prometheus: {loaded.stderr.strip()[-200:]}")
    subprocess.run(["dpkg", "--extract", next(folder.glob("*.deb")), folder / "unpacked"], check=True)
    return str(folder / "unpacked/usr/bin/promtool")


@pytest.mark.long
def test_promtool_accepts_the_rules_their_tests_and_the_queries_of_the_dashboard(promtool: str, tmp_path: Path) -> None:
    queries = tmp_path / "queries.yml"
    records = [{"record": f"panel:query:{number}", "expr": each} for number, each in enumerate(expressions())]
    queries.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    for arguments in (["check", "rules", RULES, queries], ["test", "rules", TESTS]):
        done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=PROMTOOL_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_promtool_refuses_a_rule_that_never_fires(promtool: str, tmp_path: Path) -> None:
    broken = RULES.read_text().replace("nodepool_ocb_quarantined) > 0", "nodepool_ocb_quarantined) > 5")
    (tmp_path / RULES.name).write_text(broken)
    (tmp_path / TESTS.name).write_text(TESTS.read_text())
    command = [promtool, "test", "rules", tmp_path / TESTS.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROMTOOL_SECONDS)
    assert done.returncode != 0
    assert "NodepoolOcbRecordUnreadable" in done.stdout + done.stderr

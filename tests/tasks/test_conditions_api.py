"""The seed's expressions over ``api``: what they may say, and that nothing else gets through jinja2's parser."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.conditions import ConditionResult, Models, evaluate, parse
from nodepool_ocb.tasks.tasklist import Expression, Language

MODELS = Models(
    cluster={"status": "new"},
    nodes_count=11,
    roles_of_run=frozenset({"ceph-osd"}),
    roles_of_cluster=frozenset({"ceph-osd", "zabbix-server"}),
)


def judged(text: str) -> ConditionResult:
    return evaluate(parse(Expression(Language.API, text)), MODELS)


def refusal(text: str) -> str:
    with pytest.raises(Invalid) as caught:
        judged(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("api.cluster_status == 'operational'", False),
        ("api.role_in_deployment('ceph-osd')", True),
        ("api.role_in_deployment('zabbix-server')", False),
        ("api.role_in_cluster('zabbix-server')", True),
        ("api.role_in_cluster('nagios')", False),
        ("api.cluster_status == 'new' and api.nodes_count() > 10", True),
        ("api.cluster_status == 'operational' and api.nodes_count() < 9", False),
        ("not api.role_in_cluster('nagios')", True),
        ("not api.cluster_status == 'new'", False),  # as Python: not (a == b)
        ("api.cluster_status in ['new', 'error']", True),
        ("api.cluster_status not in ('new', 'error')", False),
        ("10 < api.nodes_count() <= 11", True),
        ("10 < api.nodes_count() < 11", False),
        ("api.nodes_count() >= 11.5", False),
        ('(api.nodes_count() != 11 or true) and\n  api.cluster_status == "new"', True),
    ],
)
def test_the_seeds_expressions_are_worth_what_they_say(text: str, value: object) -> None:
    assert judged(text).value == value


def test_a_verdict_says_on_which_values_it_was_reached() -> None:
    assert str(judged("api.cluster_status == 'operational' or api.nodes_count() < 9")) == (
        "false: api.cluster_status == 'operational' or api.nodes_count() < 9,"
        ' where api.cluster_status is "new" and api.nodes_count() is 11'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("api.clusterstatus == 'new'", "at character 5: `clusterstatus` is not known; did you mean `cluster_status`?"),
        ("api.nodes_count > 1", "api.nodes_count is called with brackets; write api.nodes_count()"),
        (
            "api.role_in_cluster == 1",
            "api.role_in_cluster needs the name of a role; write, for example, api.role_in_cluster('controller')",
        ),
        ("api.cluster_status() == 'new'", "api.cluster_status is a value, not a call; write it without ()"),
        ("api.nodes_count(1)", "api.nodes_count takes no arguments; write api.nodes_count()"),
        ("api.role_in_cluster()", "needs the name of a role; write, for example, api.role_in_cluster('controller')"),
        ("api.role_in_cluster(1)", "needs the name of a role; write, for example, api.role_in_cluster('controller')"),
        (
            "api.role_in_cluster('a', 'b')",
            "needs the name of a role; write, for example, api.role_in_cluster('controller')",
        ),
        ("api == 1", "`api` alone is no value"),
        ("api.cluster_status = 'new'", "at character 20: `=` has no meaning here"),
        ("api.cluster_status == 'new", "at character 23: the text that begins here has no end"),
        ("api.nodes_count() >", "unexpected"),
        ("true true", "comes where and, or"),
        ("api.nodes_count() > 'x'", '11 > "x" has no meaning'),
        ("api.nodes_count() > 1\r\n", "carriage return"),
    ],
)
def test_a_slip_is_named_with_the_next_step(text: str, said: str) -> None:
    assert said in refusal(text)


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "api",
                ".",
                "cluster_status",
                "nodes_count",
                "role_in_cluster",
                "(",
                ")",
                "[",
                "]",
                "'x'",
                "not",
                "in",
                "and",
                "==",
                ",",
                "1",
            ]
        )
    ).map(" ".join)
)
def test_any_text_is_worth_something_or_refused(text: str) -> None:
    with suppress(Invalid):
        judged(text)

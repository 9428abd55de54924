"""Facts in texts: only those that are named, and only once."""

import pytest

from nodepool_ocb.tasks.substitution import named, substituted

FACTS: dict[str, str | int | float] = {
    "CLUSTER_ID": 7,
    "MASTER_IP": "10.0.0.2",
    "uid": "4",
    "TRICK": "{MASTER_IP}{CLUSTER_ID}",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rsync://{MASTER_IP}:/puppet/{OPENSTACK_VERSION}/", "rsync://10.0.0.2:/puppet/{OPENSTACK_VERSION}/"),
        ("{{CLUSTER_ID}} {{{CLUSTER_ID}}} {{ CLUSTER_ID }}", "{{CLUSTER_ID}} {{{CLUSTER_ID}}} {{ CLUSTER_ID }}"),
        ("{SETTINGS.access.password.value} {SETTINGS[access]} {SETTINGS}", None),
        ("{CLUSTER_ID!r} {CLUSTER_ID:>9999999} {CLUSTER_ID.__class__} {0} {}", None),
        ("awk '{ print $2 }' ${CLUSTER_ID} $(id -u {uid})", "awk '{ print $2 }' ${CLUSTER_ID} $(id -u 4)"),
        ("{uid}{uid}", "44"),
        ('{"node": {uid}}', '{"node": 4}'),
    ],
)
def test_named_facts_are_put_in_and_everything_else_stays(text: str, expected: str | None) -> None:
    assert substituted(text, FACTS) == (text if expected is None else expected)


def test_substituted_text_is_not_substituted_again() -> None:
    assert substituted("{TRICK}", FACTS) == "{MASTER_IP}{CLUSTER_ID}"


def test_lists_and_mappings_are_walked_and_keys_stay() -> None:
    before = {"{uid}": [{"src": "/keys/{CLUSTER_ID}", "n": 1, "b": True, "none": None}]}
    assert substituted(before, FACTS) == {"{uid}": [{"src": "/keys/7", "n": 1, "b": True, "none": None}]}
    assert before["{uid}"][0]["src"] == "/keys/{CLUSTER_ID}"


def test_names_that_a_value_asks_for_are_known_before() -> None:
    assert named({"a": ["{uid}", "{{MASTER_IP}}"], "{CLUSTER_ID}": "{OTHER}"}) == {"uid", "OTHER"}

"""Names and patterns of names: whole names are matched, and none takes long."""

import time

import pytest

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks import patterns

HOSTILE = [
    "/(a+)+b/",
    "/(a*)*b/",
    "/(a|a)*b/",
    "/(a|aa)+$/",
    "/(.*a){12}/",
    "/(a?){63}a{63}/",
    "/.*.*.*.*.*b/",
    "/(a|b|ab)*(bc)*c/",
    "/((((){63}){63}){63}){63}/",
    "/(a{0,63}){0,63}b/",
    "/(?:a?a?a?a?a?a?a?){9}b/",
    r"/(a*)\1*\1*b/",
    "/(?=(a+)+b)a/",
    "/" + "(" * 2000 + ")" * 2000 + "/",
    "/" + "(a|a)" * 40 + "b/",
    "/" + "a" * 1_000_000 + "/",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_an_expression_that_could_take_long_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    assert patterns.fault(text) is not None
    with pytest.raises(Invalid):
        patterns.matcher(text)
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    "text",
    ["/.*.*.*b/", "/a*a*a*b/", "/(a|ab)(c|bcd)(d*)e/", "/[a-z]*[a-y]*[a-x]*1/", "/a{0,63}.*a+?b/", "/(a?){16}b/"],
)
def test_the_slowest_that_are_taken_take_less_than_100_ms(text: str) -> None:
    match = patterns.matcher(text)
    began = time.process_time()
    for name in ("a" * 63, "a" * 62 + "b", "ab" * 31):
        match(name)
    assert (time.process_time() - began) / 3 < 0.1


@pytest.mark.parametrize(
    ("text", "name", "whole", "prefix"),
    [
        ("/(primary-)?cluster/", "primary-cluster", True, True),
        ("/(primary-)?cluster/", "cluster-haproxy", False, True),
        ("/(primary-)?cluster$/", "cluster-haproxy", False, False),
        ("/glance/", "glance-keystone", False, True),
        ("/cluster/", "primary-cluster", False, False),
        ("/top-role-(primary-)?mongo/", "top-role-mongo", True, True),
        ("/.*/", "anything at all", True, True),
        ("/(?i)CEPH-[a-z]+/", "ceph-osd", True, True),
        ("glance", "glance", True, True),
        ("glance", "glance-api", False, False),
        ("a.c", "abc", False, False),
    ],
)
def test_a_pattern_matches_whole_names_or_as_fuel_did_their_beginnings(
    text: str, name: str, whole: bool, prefix: bool
) -> None:
    assert patterns.matcher(text)(name) is whole
    assert patterns.matcher(text, compat_prefix=True)(name) is prefix


@pytest.mark.parametrize(
    ("text", "said"), [("/a(/", "no regular expression"), ("//", "is empty"), ("/*a/", "nothing to repeat")]
)
def test_what_is_no_expression_is_said(text: str, said: str) -> None:
    assert said in (patterns.fault(text) or "")

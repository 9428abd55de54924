"""Parses and evaluates expressions of each language."""

from __future__ import annotations

from functools import partial
from types import ModuleType

from nodepool_ocb.tasks.conditions import settings
from nodepool_ocb.tasks.conditions.models import Models
from nodepool_ocb.tasks.conditions.tree import ConditionResult, ParsedCondition, verdict
from nodepool_ocb.tasks.conditions.yaql import engine
from nodepool_ocb.tasks.tasklist import Expression, Language


def parse(expression: Expression) -> ParsedCondition:
    """Parse an expression. Raises Invalid with the fault, its place in the text, and the expected text."""
    match expression.language:
        case Language.SETTINGS:
            return ParsedCondition(expression, settings.parse(expression.text, strict=expression.strict))
        case Language.API:
            return ParsedCondition(expression, _api().parse(expression.text))
        case Language.YAQL:
            engine.check(expression.text)
            return ParsedCondition(expression, None)


def evaluate(parsed: ParsedCondition, models: Models) -> ConditionResult:
    """The value of an expression of the settings language or of ``api``, on facts that are the same for every node.

    Raises Invalid if a fact is missing, or values of two kinds are compared.
    """
    language = settings if parsed.expression.language is Language.SETTINGS else _api()
    return verdict(parsed, partial(language.lookup, models=models))


def _api() -> ModuleType:
    from nodepool_ocb.tasks.conditions import api  # here, since jinja2 takes long to import, and few lists need it

    return api

"""Functions that run while their module is imported: a changed body takes effect only in a module that is imported anew."""

from __future__ import annotations

import ast


def runs_at_import(source: str, function: str) -> bool:
    """Whether a statement of the module calls the function by its name, outside of functions and classes.

    >>> runs_at_import("def rules(): ...\\nRULES = (*rules(), 1)", "rules")
    True
    >>> runs_at_import("def rules(): ...\\ndef step(): return rules()", "rules")
    False
    """
    bodies = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    outside = (each for each in ast.parse(source).body if not isinstance(each, bodies))
    calls = (node for each in outside for node in ast.walk(each) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == function for call in calls)

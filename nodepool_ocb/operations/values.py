"""JSON on command lines, taken strictly. Pure."""

from __future__ import annotations

import json
import math

from nodepool_ocb.model.records import Json


def strict_json(text: str) -> Json:
    """JSON without NaN and Infinity, and without numbers too large to be written; raises ValueError.

    >>> strict_json('["10.0.0.1"]')
    ['10.0.0.1']
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    def bounded(word: str) -> float:
        if not math.isfinite(float(word)):
            raise ValueError(f"{word} is too large a number")
        return float(word)

    try:
        return json.loads(text, parse_constant=refuse, parse_float=bounded)
    except RecursionError:
        raise ValueError("it is nested too deep") from None

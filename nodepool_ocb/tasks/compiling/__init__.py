"""Task lists compiled to plans: the tasks of each node, and their order. docs/tasks.md has the rules.

Pure, iterative, and made of counters: a relation between n and m instances takes n + m edges. The same list and nodes give
the same plan.
"""

from __future__ import annotations

from nodepool_ocb.tasks.compiling.compiler import WhySkipped, compile
from nodepool_ocb.tasks.compiling.contraction import contracted

__all__ = ["WhySkipped", "compile", "contracted"]

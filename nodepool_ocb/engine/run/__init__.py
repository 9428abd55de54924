"""One run of a noderole, from the claim of its node to the node given back: one table.

An annealer holds a node while it works on one of its noderoles. Its next action depends only on the ``RunState`` and the
``RunEvent``: ``step`` returns the next state and the instructions, in order. The annealer carries out; it decides nothing.

The rules, in prose:

- Nothing is ordered from a machine before the claim is written, and nothing after the node is given back. A node is not
  given back before either. If the claim is refused, the present claim is another annealer's, with the same epoch.
- After an order, only an outcome that is *known* ends a run. A fault of this host leads to one more attempt, then to another
  annealer, with the noderole in TRANSITION. A machine that does not answer is dead only by agreement, as that stands when
  the death is written.
- While a machine is installed, no slot is held, and the absence of the machine decides nothing: only the step in the record
  of the installation and its deadline do. An annealer that takes it over continues at that step.
- If a run must be cancelled, its jig lets go of it first. Then the machine is told to end it. Its noderole is written as
  failed only when nothing of the run is left there.
- An outcome is kept until it is written, or until the noderole has moved on without this run.
- A noderole that certainly did not begin goes back as if it had never been claimed, if its role must not run twice.
- When the session is lost, its claims are void: nothing more is written for them.

Of the rules for one phase and event, the first one with a true condition is taken. A pair that is not in the table changes
nothing: it comes too late, or its answer is still under way. Pure.
"""

from __future__ import annotations

from nodepool_ocb.engine.run.about import ABOUT
from nodepool_ocb.engine.run.machine import ASKED, RULES, Rule, RunState, step
from nodepool_ocb.engine.run.words import Do, RunEvent, RunPhase

__all__ = ["ABOUT", "ASKED", "RULES", "Do", "Rule", "RunEvent", "RunPhase", "RunState", "step"]

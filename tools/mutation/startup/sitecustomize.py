"""Python imports this when it starts, in every process of ``tools/mutants`` and in the daemons that its tests start."""

import os

if "OCB_MUTANT" in os.environ:
    from mutation import changed

    changed.started()
if "OCB_REACHED" in os.environ:
    from mutation import reached

    reached.started()

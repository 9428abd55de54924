"""Python imports this when it starts, in each process that ``tools/walk`` follows (walks.trace)."""

import os

if "OCB_WALK" in os.environ:
    from walks import trace

    trace.started(os.environ["OCB_WALK"], os.environ["OCB_WALK_TREE"])

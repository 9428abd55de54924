"""What decides about noderoles: the state machine, the graph, claims, binding, what people ask for.

Pure: values and ``now`` go in, changes and sentences come out.
"""

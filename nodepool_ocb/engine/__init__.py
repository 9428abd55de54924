"""Decisions about noderoles: the state machine, the graph, claims, binding, requests of people.

Pure: values and ``now`` go in, changes and sentences come out.
"""

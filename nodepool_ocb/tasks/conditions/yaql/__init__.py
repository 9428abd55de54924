"""YAQL in conditions, parameters and strategies: ``changed($.plugins) and len($.plugins) > 0``. Needs the package ``yaql``, which
is imported by the first expression in it.

``$`` and ``$%new`` are a node's facts, ``$%old`` those of the task's last good run on this node. ``$node`` has the node's own
facts, ``$common`` those of all nodes. The functions of its standard library are there, without those that read a clock, draw a
number or reach into objects. An expression may loop, so it is evaluated in a process that the kernel bounds (``bounded``).
Pure.
"""

"""What may run for ever runs in a process of its own, which the kernel bounds: CPU time, memory. Today that is YAQL."""

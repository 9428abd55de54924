"""Code that may run for ever runs in a process of its own, with limits of CPU time and memory by the kernel: YAQL."""

"""The kit of every daemon: its life and turns, registration, timers, workers, back-off, reloading, systemd.

A daemon is a class with the methods of ``turns.Controller``, a ``Registration`` and ``Turns``. ``life.live`` runs its process,
``command.program`` makes its command, and ``reloading.Reloading`` answers SIGHUP.
"""

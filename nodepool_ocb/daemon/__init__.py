"""What every daemon stands on: its life and turns, registration, appointments, workers, back-off, reloading, systemd.

A daemon is a class with the methods of ``turns.Mind`` that has a ``Registration`` and ``Turns``. ``life.live`` is its process,
``command.program`` its command, ``reloading.Reloading`` what SIGHUP does.

The threading rule: decisions are made on the turn thread, and what blocks is done by workers. A worker gets values, and posts
what came of its work (``workers.WorkerQueue``, ``Turns.post``). A watch wakes, and does nothing else. So no lock guards what a
daemon knows.
"""

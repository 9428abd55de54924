"""The process that evaluates YAQL: a line of JSON in, a line of JSON out, until its input ends.

While an expression is evaluated, a timer of the kernel runs that counts this process's CPU time. Nothing handles its signal, so
that it ends the process wherever it is, in Python or in C. Its memory is bounded before the first expression.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import BinaryIO, Final

import msgspec

from nodepool_ocb.errors import Invalid
from nodepool_ocb.tasks.conditions.yaql import engine
from nodepool_ocb.tasks.conditions.yaql.evaluation import Evaluation, YaqlQuery, prepared

CPU_SECONDS: Final = 0.1  # of an expression
CPU_SECONDS_A_KIB: Final = 0.01  # more, for each KiB of facts that it is given
MOST_ANSWER: Final = 512 * 1024  # bytes


_encode = msgspec.json.Encoder().encode
_question = msgspec.json.Decoder(YaqlQuery).decode


def main() -> None:
    engine.context()
    _bound_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    for line in questions:
        answers.write(_answer(line) + b"\n")
        answers.flush()


def _answer(line: bytes) -> bytes:
    try:
        evaluate = prepared(_question(line))
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS + CPU_SECONDS_A_KIB * len(line) / 1024)
        try:
            answer = _encode(evaluate())
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except Invalid as invalid:
        return _encode(Evaluation(fault=str(invalid)))
    except (TypeError, ValueError, RecursionError, MemoryError) as error:  # from encoding a value that is no JSON
        return _encode(Evaluation(fault=f"its value is no JSON: {error}"))
    return answer if len(answer) <= MOST_ANSWER else _encode(Evaluation(fault="its value has more than 512 KiB"))


def _bound_memory() -> None:
    with open("/proc/self/statm", "rb") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + engine.MOST_MEMORY,) * 2)


if __name__ == "__main__":
    main()

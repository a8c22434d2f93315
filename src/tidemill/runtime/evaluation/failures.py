"""An operator that fails stops the views that it feeds; all other views continue.

A reader or a shard that cannot evaluate an operator leaves it out, with everything that reads it, and notes it in its
tick. The outlet decides: in the transaction that commits the batch, the views that any failed operator feeds are marked
as stopped, and nothing of them is stored. So a replay may fail or succeed: a view is stopped if and only if a committed
batch has marked it, and from then on its output is ignored. See
docs/decisions/2026-11-16-a-failing-operator-stops-its-views.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import duckdb

from tidemill.errors import TidemillError
from tidemill.plan.physical import Physical
from tidemill.runtime.evaluation.limits import OutOfTime, time_limited, too_large, too_long

_REASON_CHARACTERS = 500  # of a failure: it travels in ticks and is shown in one line of `status`
# Disks and files: another attempt may succeed, and no view is the cause.
_ENVIRONMENT = (
    TidemillError,
    OSError,
    duckdb.IOException,
    duckdb.FatalException,
    duckdb.ConnectionException,
    duckdb.TransactionException,
)

T = TypeVar("T")


class OperatorFailed(Exception):
    """An input of an operator has failed; the failure itself is noted already."""


def is_of_operator(error: BaseException) -> bool:
    """Whether an error is about what an operator computes, and not about the machine that it runs on.

    >>> is_of_operator(ZeroDivisionError()), is_of_operator(MemoryError()), is_of_operator(OSError(28, "disk full"))
    (True, True, False)
    """
    return isinstance(error, (Exception, OutOfTime)) and not isinstance(error, _ENVIRONMENT)


def reason_of(error: BaseException) -> str:
    """An error in one line.

    >>> reason_of(ValueError("no\\nway"))
    'ValueError: no'
    """
    if isinstance(error, (MemoryError, duckdb.OutOfMemoryException)):
        return f"{too_large().code} {too_large().message}"
    if isinstance(error, (OutOfTime, duckdb.InterruptException)):
        return f"{too_long().code} {too_long().message}"
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text[:_REASON_CHARACTERS]


def guard(op: str, found: Iterator[T], failed: dict[str, str], seconds: float = 0) -> Iterator[T]:
    """What an operator yields until it fails; the failure is noted in `failed`. `seconds` limits each item."""
    while True:
        try:
            with time_limited(seconds):
                one = next(found)
        except StopIteration:
            return
        except OperatorFailed:
            failed.setdefault(op, "it reads an operator that failed")
            return
        except (Exception, OutOfTime) as error:
            if not is_of_operator(error):
                raise
            failed[op] = reason_of(error)
            return
        yield one


def operators_above(plan: Physical, failed: Iterable[str]) -> set[str]:
    """The operators and ports that some failed ones feed, directly or through others, and they themselves."""
    lost = set(failed)
    size = -1
    while len(lost) > size:
        size = len(lost)
        lost |= {e.port for e in (*plan.exchanges, *plan.loops) if e.source_op in lost}
        for op in (*plan.reader, *plan.stage):
            if op.id not in lost and not lost.isdisjoint(op.inputs):
                lost.add(op.id)
    return lost


def stopped_views(plan: Physical, failed: Mapping[str, str]) -> dict[str, str]:
    """View id → reason, for each view that a failed operator feeds."""
    found: dict[str, str] = {}
    for op, reason in sorted(failed.items()):
        lost = operators_above(plan, [op])
        found.update({o.view: reason for o in plan.outputs if o.op in lost and o.view not in found})
    return found

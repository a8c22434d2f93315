"""How often Python collects garbage while plans are made and read, and at the end of a batch.

The fast path `gc_control`: changes when garbage is collected, no answer; without it Python's own thresholds hold.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidemill.runtime import fast_paths

SELDOM = (
    1_000_000  # a thousand views are made of some three million objects: at 100,000 a fifth of the time is collecting
)
MANY = 100_000  # young objects: to look through them takes 13 ms, to make them old less than a microsecond
MOST_AGED = 10_000_000  # objects without a collection, then one of everything
_lock = threading.Lock()
_aged = 0  # objects that became old without a collection since the last one of everything
_inside: list[tuple[int, int, int]] = []  # the thresholds before, one entry for each block that is active


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Inside, Python looks for cyclic garbage after a million new objects, not after 700.

    Planning makes trees that stay: to look through them again and again finds nothing, and is a fifth of the time of a
    thousand queries. The setting belongs to the process, so the last one to leave puts it back. What was made inside,
    if it is much, is old then: Python would look through it three times before it came to the same.
    The fast path `gc_control`: without it nothing is changed.

    >>> before = gc.get_threshold()
    >>> with seldom_collected(), seldom_collected():
    ...     gc.get_threshold()[0] >= SELDOM
    True
    >>> gc.get_threshold() == before
    True
    """
    if not fast_paths.is_on("gc_control"):
        yield
        return
    with _lock:
        now = gc.get_threshold()
        _inside.append(_inside[0] if _inside else now)
        if 0 < now[0] < SELDOM:  # 0: the user has switched it off
            gc.set_threshold(SELDOM, *now[1:])
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                _age(gc.get_count()[0])
                gc.set_threshold(*before)


def _age(young: int) -> None:
    """Make all objects old if many are young; after `MOST_AGED` of them, collect the garbage among them.

    To freeze and unfreeze moves all objects to the oldest generation and looks at none. Not where the process has
    frozen objects of its own: they would be unfrozen.
    """
    global _aged
    if young < MANY or not gc.isenabled() or gc.get_freeze_count():
        return
    gc.freeze()
    gc.unfreeze()
    _aged += young
    if _aged > MOST_AGED:
        gc.collect()
        _aged = 0

"""Sides of a comparison: each in a process of its own that lives for the whole benchmark and works when it is asked."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

# What the time of a whole query is, on the pages.
WHOLE = "whole query"
IN_AN_ENGINE_THAT_IS_UP = (
    " Tidemill's clock runs from the first statement to the last answer, in an engine that is up (`db.warm()`): the"
    " statements and their planning are included, bringing up its job and its processes is not. The clock of the others"
    " begins with the start of the query, in a session that is up."
)
_fresh = multiprocessing.get_context("spawn")


class Side:
    """An object in another process; `ask` calls one of its methods there and waits."""

    def __init__(self, make: Callable[..., Any], *args: Any) -> None:
        self._pipe, far = _fresh.Pipe()
        self._process = _fresh.Process(target=_serve, args=(far, make, args))
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def ask(self, method: str, *args: Any) -> Any:
        """The method's answer; its error is raised here."""
        self.tell(method, *args)
        return self.answer()

    def tell(self, method: str, *args: Any) -> None:
        """Call without waiting; `answer` has the result."""
        self._pipe.send((method, args))

    def answered(self, timeout: float) -> bool:
        """Whether the answer is there, after waiting for it."""
        return self._pipe.poll(timeout)

    def answer(self) -> Any:
        good, result = self._pipe.recv()
        if not good:
            raise RuntimeError(result)
        return result

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(pipe: Any, make: Callable[..., Any], args: tuple[Any, ...]) -> None:
    thing: Any = None
    while (call := pipe.recv()) is not None:
        method, given = call
        try:
            thing = make(*args) if thing is None else thing
            pipe.send((True, getattr(thing, method)(*given)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that Spark or the JVM prints disturbs the progress bar."""
    kept, hole = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(hole, 1)
        os.dup2(hole, 2)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(hole)


def alternate(
    sides: dict[str, Callable[[], Any]], rounds: int, done: Callable[[], None] = lambda: None
) -> dict[str, list[Any]]:
    """The results of each side over `rounds` rounds; every other round goes through the sides backwards."""
    found: dict[str, list[Any]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            found[name].append(sides[name]())
            done()
    return found


def medians(found: dict[str, list[Any]], of: str) -> dict[str, float]:
    """The median of one field of each side's results."""
    return {name: median(r[of] for r in results) for name, results in found.items()}


def sustained(ends: Sequence[tuple[float, int]], rows: int, seconds: float) -> float:
    """Rows per second between the end of the first and of the last micro-batch; of the whole run if there is but one.

    >>> sustained([(3.0, 16), (4.0, 32), (5.0, 40)], 40, 5.1)
    12.0
    """
    (first, done), (last, _) = ends[0], ends[-1]
    return (rows - done) / (last - first) if done < rows else rows / seconds

"""A user aggregate in a worker: its functions, loaded once for each process, and copying of its accumulators.

The contract is that of a Python programmer: `add`, `combine` and `invert` may change and return their first argument,
never the second. So an accumulator that is still needed is copied before it becomes a first argument; numbers, texts
and tuples of them cannot change and are not copied.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pyspark import cloudpickle

from tidemill.plan.python_values import Beyond

_UNCHANGING = (int, float, complex, str, bytes, bool, type(None), Fraction)
_EXACT = (int, str, bytes, bool, type(None), Fraction)


@dataclass(frozen=True)
class AggregateFunctions:
    """answer = finish(combine of folds), a fold = add(… add(add(zero, v₁), v₂) …, vₙ); invert(combine(a, b), b) = a."""

    zero: Any
    add: Callable[[Any, Any], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any] | None = None
    invert: Callable[[Any, Any], Any] | None = None

    def fresh(self) -> Any:
        """A fresh initial accumulator."""
        return self.zero() if callable(self.zero) else copy_of(self.zero)

    def answer(self, accumulator: Any) -> Any:
        """The answer; the accumulator stays as it is."""
        return copy_of(accumulator) if self.finish is None else self.finish(copy_of(accumulator))


@lru_cache(maxsize=256)
def load_functions(body: str) -> AggregateFunctions:
    """The fold behind the text in a plan."""
    return AggregateFunctions(**pickle.loads(base64.b64decode(body)))


def dump_functions(fold: AggregateFunctions) -> str:
    """The functions as text; functions that are not importable from a module are pickled by value."""
    return base64.b64encode(cloudpickle.dumps(vars(fold))).decode()


def pack(accumulator: Any) -> bytes:
    """An accumulator as bytes; its class is pickled by value where no module has it."""
    try:
        return pickle.dumps(accumulator, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(accumulator))


def copy_of(accumulator: Any) -> Any:
    """An equal accumulator that may be changed.

    >>> kept = [1, 2]
    >>> copy_of(kept).append(3)
    >>> kept
    [1, 2]
    """
    return accumulator if _made_of(accumulator, _UNCHANGING, (tuple,)) else pickle.loads(pack(accumulator))


def is_exact(accumulator: Any) -> bool:
    """True where inverting a combination leaves neither a rounding error nor another order.

    >>> is_exact((3, 5)), is_exact((3, 0.5)), is_exact({"a": 1})
    (True, False, False)
    """
    return _made_of(accumulator, _EXACT, (tuple, list))


def _made_of(value: Any, kinds: tuple[type, ...], containers: tuple[type, ...]) -> bool:
    if type(value) in kinds:
        return True
    return type(value) in containers and all(_made_of(v, kinds, containers) for v in value)


def check_value(value: Any) -> Any:
    """A value as a user's function gets it; one that Python cannot represent is a failure of its row."""
    if isinstance(value, Beyond):
        raise ValueError(f"{value} is beyond the range of Python's type")
    return value


def error_line(error: Exception) -> str:
    """An error of a user's function in one line.

    >>> error_line(ValueError("math domain error"))
    'ValueError: math domain error'
    """
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__

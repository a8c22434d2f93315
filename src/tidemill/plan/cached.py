"""Values that are computed once for each object: as a property of it, or by a function of it.

`cached_property` is that of `functools` without the lock that Python 3.11 takes for every value: a thousand queries
compute some ten thousands of these values. Two threads may compute the same one twice, and get equal ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """A property that is computed once for each object and then is an attribute of it.

        >>> class Square:
        ...     @cached_property
        ...     def area(self):
        ...         print("computed")
        ...         return 9
        >>> one = Square()
        >>> one.area, one.area
        computed
        (9, 9)
        """

        def __init__(self, compute):
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, one, owner=None):
            if one is None:
                return self
            found = one.__dict__[self.name] = self.compute(one)
            return found


T = TypeVar("T")
R = TypeVar("R")


def cached_by_object(compute: Callable[[T], R]) -> Callable[[T], R]:
    """A function of one object that is computed once for each, and forgotten with it. A recursive function over a
    tree in which many nodes read the same ones then visits each of them once.
    """
    known: WeakKeyDictionary[T, R] = WeakKeyDictionary()

    @wraps(compute)
    def answer(one: T) -> R:
        if one not in known:
            known[one] = compute(one)
        return known[one]

    return answer


__all__ = ["cached_by_object", "cached_property"]

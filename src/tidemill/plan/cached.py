"""`functools.cached_property` without the lock that Python 3.11 takes for every value.

A thousand queries compute some ten thousands of these values. Two threads may compute the same one twice, and get equal
ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


__all__ = ["cached_property"]

"""Scalar functions of the user: the name, the types, and the pickled Python function behind it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.plan.cached import cached_property


@dataclass(frozen=True)
class UserFunction:
    """A function as plans carry it. Another body is another function, also under the same name."""

    name: str
    accepts: tuple[str, ...]
    returns: str
    body: str

    @cached_property
    def sql_name(self) -> str:
        """Its name in the SQL of a plan.

        >>> UserFunction("Twice", ("BIGINT",), "BIGINT", "gA==").sql_name
        'twice__5cbbe5ec'
        """
        text = "\n".join((self.name, *self.accepts, self.returns, self.body))
        return f"{self.name.lower()}__{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"

    def with_arguments(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A Python function of any number of arguments that says how many this one takes: DuckDB asks for it."""
        kind = inspect.Parameter.POSITIONAL_ONLY
        names = [inspect.Parameter(f"a{i}", kind) for i in range(len(self.accepts))]
        function.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        return function

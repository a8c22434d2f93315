"""Immutable plan nodes, interned by fingerprint: equal subplans are one object.

Two nodes of the same class with the same operands are the same Python object, so sharing between
standing queries is visible as identity, and a fingerprint names a node in files and state stores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

_interned: WeakValueDictionary[str, Any] = WeakValueDictionary()


class _Interning(type):
    """Building a node that exists already returns the existing one."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        node = super().__call__(*args, **kwargs)
        return _interned.setdefault(node.fingerprint, node)


@dataclass(frozen=True, eq=False)
class Node(metaclass=_Interning):
    """Base of all plan nodes: operands are fields, equality is identity after interning."""

    def __post_init__(self) -> None:
        self.check()
        text = json.dumps([type(self).__name__, [_digest(getattr(self, f.name)) for f in fields(self)]])
        object.__setattr__(self, "_print", hashlib.blake2b(text.encode(), digest_size=9).hexdigest())

    def check(self) -> None:
        """Reject operands that cannot work; called when the node is built."""

    @property
    def fingerprint(self) -> str:
        """Eighteen hex digits that depend on type and operands only; the same from run to run."""
        return self._print  # type: ignore[attr-defined,no-any-return]

    @property
    def children(self) -> tuple[Node, ...]:
        """The operand nodes, in field order."""
        found: list[Node] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple):
                found += [v for v in value if isinstance(v, Node)]
        return tuple(found)


N = TypeVar("N", bound=Node)


def walk(root: Node) -> Iterator[Node]:
    """Every node under `root` once, inputs before the nodes that read them."""
    seen: set[str] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node.fingerprint not in seen:
            seen.add(node.fingerprint)
            stack.append((node, True))
            stack += [(child, False) for child in reversed(node.children)]


def _digest(value: Any) -> Any:
    if isinstance(value, Node):
        return ["node", value.fingerprint]
    if isinstance(value, (tuple, list)):
        return [_digest(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _digest(v) for k, v in sorted(value.items())}
    if is_dataclass(value):
        return [type(value).__name__, [_digest(getattr(value, f.name)) for f in fields(value)]]
    return value

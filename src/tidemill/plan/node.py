"""Immutable plan nodes, interned by fingerprint: equal subplans are one object.

Two nodes of the same class with the same operands are the same Python object, so sharing between
standing queries is visible as identity, and a fingerprint names a node in files and state stores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet, WeakValueDictionary

from tidemill.plan.cached import cached_property
from tidemill.plan.scalars import Scalar
from tidemill.plan.window_frames import Frame

_PLAIN: dict[type, Callable[[Any], str]] = {
    str: _quoted,
    int: repr,
    bool: lambda b: "true" if b else "false",
    type(None): lambda _: "null",
}
_interned: WeakValueDictionary[str, Any] = WeakValueDictionary()
_varied: WeakSet[Any] = WeakSet()  # nodes whose identity is not their fingerprint


class _Interning(type):
    """Building a node that exists already returns the existing one."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        node = super().__call__(*args, **kwargs)
        return _interned.setdefault(node.identity, node)


@dataclass(frozen=True, eq=False)
class Node(metaclass=_Interning):
    """Base of all plan nodes: operands are fields, equality is identity after interning."""

    def __post_init__(self) -> None:
        self.check()
        object.__setattr__(self, "_print", hash_text(self.naming_text()))
        if _varied or self.VARIES:
            self._note_variation()

    VARIES: ClassVar[bool] = False  # whether nodes of one fingerprint may have different inputs

    def naming_text(self) -> str:
        """What the fingerprint is made of: the type and the operands."""
        return _fields_text(self)

    def _note_variation(self) -> None:
        """Keep an identity of its own for a node that varies, or reads one that does."""
        varied = [c.identity for c in self.children if self.VARIES or c in _varied]
        if self.VARIES or varied:
            object.__setattr__(self, "_identity", hash_text(_fields_text(self) + "|".join(varied)))
            _varied.add(self)

    @property
    def identity(self) -> str:
        """Nodes of equal identity are one object: the fingerprint, unless nodes of one fingerprint differ in inputs."""
        found: str = getattr(self, "_identity", self.fingerprint)
        return found

    def check(self) -> None:
        """Reject operands that cannot work; called when the node is built."""

    @property
    def fingerprint(self) -> str:
        """Eighteen hex digits that depend on type and operands only; the same from run to run."""
        return self._print  # type: ignore[attr-defined]

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The operand nodes, in field order."""
        found: list[Node] = []
        for name in _operands(type(self)):
            value = getattr(self, name)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, tuple):
                found += [v for v in value if isinstance(v, Node)]
        return tuple(found)


N = TypeVar("N", bound=Node)


def hash_text(text: str) -> str:
    """Eighteen hex digits of a text."""
    return hashlib.blake2b(text.encode(), digest_size=9).hexdigest()


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


@cache
def _operands(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass: they are the same for all of its objects."""
    return tuple(f.name for f in fields(kind))


def _text(value: Any) -> str:
    """JSON of an operand: a node is ["node", fingerprint], a scalar its SQL, a dataclass [type, [its fields]]."""
    kind: Any = type(value)
    return _writer(kind)(value)


@cache
def _writer(kind: type) -> Callable[[Any], str]:
    """The function that writes an operand of a type; chosen once, since a thousand queries have a million operands."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if issubclass(kind, (Scalar, Frame)):
        return lambda written: _quoted(written.sql)
    if issubclass(kind, Node):
        return lambda node: f'["node", "{node.fingerprint}"]'
    if issubclass(kind, (tuple, list)):
        return lambda values: f"[{', '.join(map(_text, values))}]"
    if issubclass(kind, dict):
        return lambda values: f"{{{', '.join(f'{_quoted(str(k))}: {_text(v)}' for k, v in sorted(values.items()))}}}"
    if getattr(kind, "IN_MANY_NODES", False):
        return _kept_text
    return _fields_text if is_dataclass(kind) else json.dumps


def _kept_text(value: Any) -> str:
    """The text of an operand that never changes and stands in node after node: it is written once for each object."""
    found: str | None = vars(value).get("_text")
    if found is None:
        found = _fields_text(value)
        object.__setattr__(value, "_text", found)
    return found


def _fields_text(value: Any) -> str:
    kind: type = type(value)
    name = getattr(kind, "STORED_NAME", kind.__name__)
    return f'["{name}", [{", ".join([_text(getattr(value, field)) for field in _operands(kind)])}]]'

"""How rows are placed in the shards, and whether an operator can use that placement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidemill.plan import relations as r
from tidemill.plan.physical import Route, ids
from tidemill.plan.relations import Relation
from tidemill.plan.sources import Schema

Spread = tuple[frozenset[str], ...]  # partitioned by these columns; each position lists equal names


@dataclass(frozen=True)
class Where:
    """How rows are placed in the shards: in 'any', all in 'one', a copy in 'all', or by 'hash'."""

    how: Literal["any", "one", "all", "hash"]
    by: Spread = ()


ANY, ONE, ALL = Where("any"), Where("one"), Where("all")


@dataclass(frozen=True)
class Handle:
    """Rows of a relation: an operator in the reader or the stage, or several of them together."""

    place: Literal["reader", "stage", "union"]
    op: str = ""
    schema: Schema = ()
    where: Where = ANY
    branches: tuple[Handle, ...] = ()


def name_of(node: Relation) -> str:
    return ids.node(type(node).__name__.lower(), node.fingerprint)


def by_hash(names: Iterable[str]) -> Where:
    return Where("hash", tuple(frozenset([n]) for n in names))


def first_names(by: Spread) -> tuple[str, ...]:
    return tuple(sorted(names)[0] for names in by)


def route_of(need: Where) -> tuple[Route, tuple[str, ...]]:
    return need.how, first_names(need.by)


def satisfies(have: Where, need: Where, exact: bool) -> bool:
    if need.how == "any":
        return have.how != "all"
    if need.how != "hash":
        return have.how == need.how
    if exact:
        return (
            have.how == "hash"
            and len(have.by) == len(need.by)
            and all(n <= h for h, n in zip(have.by, need.by, strict=True))
        )
    # Rows of equal key are together when the rows are split by some of the key's columns.
    allowed = {name for names in need.by for name in names}
    return have.how == "one" or (have.how == "hash" and all(h & allowed for h in have.by))


def placement_after(handle: Handle, need: Where) -> Where:
    """The placement of the rows of a handle after delivery as `need`: unchanged where it already satisfies `need`."""
    if handle.place == "union":
        return (common_placement(handle.branches, need) if need.how == "hash" else None) or need
    if handle.place == "reader" or not satisfies(handle.where, need, exact=False):
        return need
    return restrict_placement(handle.where, need) if need.how == "hash" else handle.where


def common_placement(branches: tuple[Handle, ...], need: Where) -> Where | None:
    """The placement that all branches have in common, if there is one that satisfies `need`."""
    if any(b.place != "stage" or not satisfies(b.where, need, exact=False) for b in branches):
        return None
    ways = [restrict_placement(b.where, need) for b in branches]
    if any(w.how != ways[0].how or len(w.by) != len(ways[0].by) for w in ways):
        return None
    by = tuple(frozenset.intersection(*names) for names in zip(*(w.by for w in ways), strict=True))
    return Where(ways[0].how, by) if all(by) else None


def restrict_placement(where: Where, need: Where) -> Where:
    """A placement named by columns of the needed key only."""
    allowed = {name for names in need.by for name in names}
    return Where(where.how, tuple(names & allowed for names in where.by))


def project_placement(where: Where, node: r.Project) -> Where:
    if where.how != "hash":
        return where
    copies: dict[str, set[str]] = {}
    for item in node.items:
        origin = node.passes(item.name)
        if origin is not None:
            copies.setdefault(origin, set()).add(item.name)
    by = tuple(frozenset(new for old in names for new in copies.get(old, ())) for names in where.by)
    return Where("hash", by) if all(by) else ANY


def rename_placement(where: Where, renames: dict[str, str]) -> Where:
    if where.how != "hash":
        return where
    by = tuple(frozenset(renames[n] for n in names if n in renames) for names in where.by)
    return Where("hash", by) if all(by) else ANY


def common_positions(sides: list[Handle], keys: list[list[str]]) -> list[int]:
    """Positions of the key by which both sides are split: those by which one of them is already split, else all."""
    for handle, names in zip(sides, keys, strict=True):
        if handle.place == "stage" and handle.where.how == "hash":
            found = [next((i for i, n in enumerate(names) if n in by), None) for by in handle.where.by]
            if found and None not in found:
                return [i for i in found if i is not None]
    return list(range(len(keys[0])))

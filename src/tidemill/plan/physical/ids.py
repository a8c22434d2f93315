"""The names of operators, ports and origins; all of them are made here.

State, feedback and what is on its way are kept under these names, so a name says what an operator computes and never
which plan version it is in: `kind.fingerprint` for an operator of one node, `kind.source` for one that a source has
once. Changing the text of a name makes running databases lose what they keep under it.
"""

from __future__ import annotations

from collections.abc import Iterable

_SOURCE, _SEED = "source:", "seed:"


def node(kind: str, fingerprint: str) -> str:
    """The operator of one logical node.

    >>> node("groupby", "5f1c")
    'groupby.5f1c'
    """
    return f"{kind}.{fingerprint}"


def variant(name: str, which: str | int) -> str:
    """Another operator of the same node: in another mode, or on one branch of a union."""
    return f"{name}.{which}"


# ---- readers ---------------------------------------------------------------------------------------


def scan(instance: str) -> str:
    return f"scan.{instance}"


def seed(view: str, birth: int, since: int | None = None) -> str:
    """What a view holds for readers that begin with a plan version, or held at an earlier time.

    >>> seed("v1", 2), seed("v1", 2, 4000000)
    ('seed.v1.2', 'seed.v1.2.4000000')
    """
    return f"seed.{view}.{birth}" + ("" if since is None else f".{since}")


def lfta(source: str) -> str:
    return f"lfta.{source}"


def source_of(lfta_id: str) -> str:
    """The source that an lfta reads: the inverse of `lfta`.

    >>> source_of(lfta("db.clicks"))
    'db.clicks'
    """
    return lfta_id.partition(".")[2]


def leaf(store: str) -> str:
    return f"leaf.{store}"


def accumulator_leaf(store: str) -> str:
    return f"objects.{store}"


# ---- stages ----------------------------------------------------------------------------------------


def weave(store: str) -> str:
    return f"weave.{store}"


def clock(unit_us: int) -> str:
    return f"clock.{unit_us}"


def view_output(fingerprint: str) -> str:
    return f"gate.{fingerprint}"


def numbered_id(kind: str, number: int, fingerprint: str) -> str:
    """One of several operators of a kind that a node has: an input of a join, a column that is kept by value.

    >>> numbered_id("side", 0, "5f1c")
    'side0.5f1c'
    """
    return f"{kind}{number}.{fingerprint}"


def copies(number: int, form: str, fingerprint: str) -> str:
    """What the homes of hot keys send of one input of an aggregation join, in one form."""
    return f"copies{number}.{form}.{fingerprint}"


def split(op: str) -> str:
    """The rows of an operator whose keys are split."""
    return f"split.{op}"


def cold(op: str) -> str:
    """The rows of an operator whose keys are not split."""
    return f"cold.{op}"


def union(inputs: Iterable[str]) -> str:
    return "union." + ".".join(inputs)


def local_rows(op: str, keys: Iterable[str]) -> str:
    """The rows of a replicated operator that belong to a shard."""
    return f"mine.{op}.{'.'.join(keys)}"


# ---- edges -----------------------------------------------------------------------------------------


def port(op: str, route: str, keys: Iterable[str]) -> str:
    """Where the rows of a reader's operator arrive.

    >>> port("scan.S", "hash", ["a", "b"])
    'port.scan.S.hash.a.b'
    """
    return f"port.{op}.{route}.{'.'.join(keys)}"


def loop(op: str, route: str, keys: Iterable[str]) -> str:
    """Where the rows of a stage's operator arrive in the next micro-batch."""
    return f"loop.{op}.{route}.{'.'.join(keys)}"


def hot_loop(op: str) -> str:
    """The loop of rows of hot keys; its operator has one only."""
    return f"loop.{op}"


def source_origin(source: str) -> str:
    """The origin of a port that follows the frontier of a source."""
    return _SOURCE + source


def seed_origin(name: str) -> str:
    """The origin of a port that opens when the seed `name` has arrived."""
    return _SEED + name


def is_of_source(origin: str) -> bool:
    return origin.startswith(_SOURCE)

"""Shard labels that Spark's hash puts in different shuffle partitions: one shard for each task."""

from __future__ import annotations

_MASK = 0xFFFFFFFF  # 32 bits, as the hash of Spark has


def shard_labels(count: int) -> tuple[int, ...]:
    """`count` integers whose Spark hashes modulo `count` are 0, 1, …, count − 1.

    >>> labels = shard_labels(4)
    >>> sorted(spark_hash(label) % 4 for label in labels)
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    label = 0
    while len(found) < count:
        found.setdefault(spark_hash(label) % count, label)
        label += 1
    return tuple(found[i] for i in range(count))


def spark_hash(value: int, seed: int = 42) -> int:
    """Murmur3 (32 bit) of one integer as Spark's `hash` computes it, as a signed number.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotate(k, 15) * 0x1B873593 & _MASK
    h = (_rotate(seed ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the length in bytes
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _rotate(x: int, bits: int) -> int:
    return (x << bits | x >> (32 - bits)) & _MASK

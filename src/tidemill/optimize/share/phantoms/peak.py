"""Keeping the end-of-epoch cost under the peak load constraint, E_e <= E_p (paper 002, section 8.5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.optimize.share.phantoms.configuration import Configuration
from tidemill.optimize.share.phantoms.model import Model

_STEPS = 400


def peak_load(configuration: Configuration, buckets: Sequence[int], model: Model) -> float:
    """E_e (8) with predicted collision rates."""
    return model.end_cost(configuration, buckets)


def shrink(configuration: Configuration, buckets: Sequence[int], model: Model, limit: float) -> list[int] | None:
    """All tables smaller in proportion, by the least factor that keeps E_e within the limit; None if none does."""

    def at(kept: float) -> list[int]:
        return [max(1, int(b * kept)) for b in buckets]

    return _first_within(configuration, model, limit, (at(1 - step / _STEPS) for step in range(_STEPS + 1)))


def shift(configuration: Configuration, buckets: Sequence[int], model: Model, limit: float) -> list[int] | None:
    """The least space moved from queries to phantoms that keeps E_e within the limit; None if no shift does.

    A query's entry costs c2 at the end of an epoch; a phantom's costs c1 for each child, and c2 only if it collides
    there. Every query gives the same share of its space, and phantoms receive it in proportion to their sizes. A shift
    can also raise E_e, if the smaller tables of the queries collide more: so it may fail where shrink succeeds.
    """
    sizes = model.bucket_sizes(configuration)
    gives = [not configuration.children[i] for i in range(len(sizes))]
    takers = sum(b * h for b, h, leaf in zip(buckets, sizes, gives, strict=True) if not leaf)
    if takers == 0:
        return list(buckets) if peak_load(configuration, buckets, model) <= limit else None

    def at(moved: float) -> list[int]:
        kept = [max(1, int(b * (1 - moved))) if leaf else b for b, leaf in zip(buckets, gives, strict=True)]
        freed = sum((b - k) * h for b, k, h in zip(buckets, kept, sizes, strict=True))
        return [k if leaf else int(k * (1 + freed / takers)) for k, leaf in zip(kept, gives, strict=True)]

    return _first_within(configuration, model, limit, (at(step / _STEPS) for step in range(_STEPS + 1)))


def fit_peak(configuration: Configuration, buckets: Sequence[int], model: Model, limit: float) -> list[int]:
    """The cheaper of shrink and shift; one bucket each when neither reaches the limit."""
    options = [method(configuration, buckets, model, limit) for method in (shrink, shift)]
    found = [sizes for sizes in options if sizes is not None]
    if not found:
        return [1] * len(buckets)
    return min(found, key=lambda sizes: model.cost(configuration, sizes))


def _first_within(
    configuration: Configuration, model: Model, limit: float, trials: Iterable[list[int]]
) -> list[int] | None:
    return next((sizes for sizes in trials if peak_load(configuration, sizes, model) <= limit), None)

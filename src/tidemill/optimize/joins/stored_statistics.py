"""Statistics of one aggregation join as the catalog stores them: JSON."""

from __future__ import annotations

from typing import TypedDict

InputStatistics = dict[str, float]  # rate, window, values, set_size, bytes, shipped; with probes matches, set_matches


class JoinStatistics(TypedDict, total=False):
    """Averages over batches of what its inputs did; pairs and groups are those of the last batch."""

    inputs: list[InputStatistics]
    pairs: float
    groups: float
    batches: int
    seconds: float  # of event time, of a batch
    until: int | None  # the end of the last batch
    arrived: list[int]  # changes of each input so far

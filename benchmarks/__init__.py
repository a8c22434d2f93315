"""Benchmarks: `python -m benchmarks` runs them all and writes docs/benchmarks."""

import tidemill  # noqa: F401  # before pyarrow, as users are told: it says how Arrow's memory is kept

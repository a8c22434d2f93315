"""Window aggregates over a packet trace: Tidemill against Spark Structured Streaming, Flink SQL and DuckDB in batch."""

from benchmarks.peers.comparison import run
from benchmarks.peers.page import draw

__all__ = ["draw", "run"]

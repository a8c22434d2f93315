"""Slow twins of paper 001: its algorithms line by line, over a network that counts bytes.

Every step of the pseudocode is one statement here, in the order of the paper. Where the text as printed cannot work,
a comment says what was changed; docs/decisions/2026-11-18-faults-of-the-semijoin-paper.md lists all of them.
"""

from __future__ import annotations

from tests.sites.twins.algorithms import TWINS, OneWay
from tests.sites.twins.sequences import MultiWay, Step, run_sequences
from tests.sites.twins.wire import COUNT_BYTES, Item, Stream, Wire, Work

__all__ = ["COUNT_BYTES", "TWINS", "Item", "MultiWay", "OneWay", "Step", "Stream", "Wire", "Work", "run_sequences"]

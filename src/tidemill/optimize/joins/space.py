"""Bytes a plan keeps and bytes it sends: the space overhead that paper 000 leaves to future work (section 8)."""

from __future__ import annotations

from tidemill.optimize.joins.parameters import Parameters


def state_bytes(known: Parameters, plan: str, answer_width: float) -> float:
    """Σ (w_i · late width, or α_i · early width if early) + α · answer width.

    The paper keeps W_i beside AS_i, to know what leaves. Here rows that will leave are pending changes of the window
    operator whatever the plan, so they make no difference.

    >>> from tidemill.optimize.joins.parameters import derive_parameters
    >>> from tidemill.optimize.joins.streams import Stream
    >>> p = derive_parameters([Stream(1, 100, 1, 5, late_width=8, early_width=16), Stream(1, 10, 2, 10, late_width=8)])
    >>> [state_bytes(p, plan, 10) for plan in ("00", "10")]  # 800 + 80 + 2 · 10; AS_1 has 5 rows of 16 bytes
    [900.0, 180.0]
    """
    kept = known.alpha * answer_width
    for i, stream in enumerate(known.streams):
        kept += known.alphas[i] * stream.early_width if known.early(i, plan) else stream.window * stream.late_width
    return kept


def network_bytes(known: Parameters, plan: str) -> float:
    """Bytes per unit of time: λ_i · late width, or the changes of AS_i · early width if early.

    >>> from tidemill.optimize.joins.parameters import derive_parameters
    >>> from tidemill.optimize.joins.streams import Stream
    >>> p = derive_parameters([Stream(100, 1000, 1, 5, late_width=8, early_width=16, refresh=10)])
    >>> [network_bytes(p, plan) for plan in "01"]  # five groups every ten units of time
    [800.0, 8.0]
    """
    sent = 0.0
    for i, stream in enumerate(known.streams):
        width = stream.early_width if known.early(i, plan) else stream.late_width
        sent += known.shipped_changes(i, plan) * width
    return sent

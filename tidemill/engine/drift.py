"""Whether what is measured has drifted from what was predicted when the plan was chosen."""

from __future__ import annotations

APART = 0.25  # share of the prediction by which a batch must differ
BATCHES = 2  # so many in a row


class Drift:
    """For each join the plan, what it was predicted to cost, and how many batches in a row have cost something else.

    >>> drift = Drift()
    >>> drift.expect("j", "00", 100.0)
    >>> [drift.saw("j", "00", cost) for cost in (120, 130, 90, 500, 510)]
    [False, False, False, False, True]
    """

    def __init__(self) -> None:
        self._expected: dict[str, tuple[str, float]] = {}
        self._apart: dict[str, int] = {}

    def expect(self, name: str, plan: str, cost: float) -> None:
        """From now on the plan should cost this much."""
        self._expected[name] = plan, cost
        self._apart[name] = 0

    def saw(self, name: str, plan: str, cost: float) -> bool:
        """A batch has cost so much; True when it and the one before differ from the prediction. The first batch of a
        plan that nobody predicted makes the prediction.
        """
        if self._expected.get(name, ("", 0.0))[0] != plan:
            self.expect(name, plan, cost)
            return False
        expected = self._expected[name][1]
        apart = abs(cost - expected) > APART * expected
        self._apart[name] = self._apart[name] + 1 if apart else 0
        return self._apart[name] >= BATCHES

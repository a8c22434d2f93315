"""Whether what is measured has drifted from what was predicted when the plan was chosen."""

from __future__ import annotations

from dataclasses import dataclass

APART = 0.25  # share of the prediction by which a batch must differ
BATCHES = 2  # so many in a row
_SELDOM = 64  # batches between two looks in vain, at most
_CALM = 8  # batches in a row as predicted: what went up and down before does not count any more


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


@dataclass
class _Course:
    """Of one plan: batches in a row that differ, and that do not; batches to wait, and how many after the next look in
    vain.
    """

    apart: int = 0
    calm: int = 0
    wait: int = 0
    patience: int = 1


class Patience:
    """When plans whose search takes long are looked at for drift: in the second batch in a row that differs. A look in
    vain makes the next one wait twice as long, until costs are as predicted for a while: what goes up and down is
    looked at ever less often. Looks for other reasons, while costs are as predicted, make nothing wait.

    >>> patience = Patience()
    >>> [patience.seen("a", True) for _ in range(3)], patience.seen("b", True)
    ([False, True, True], False)
    >>> patience.looked("a", changed=False)
    >>> [patience.seen("a", True) for _ in range(3)]
    [False, True, True]
    >>> patience.looked("a", changed=False)
    >>> [patience.seen("a", True) for _ in range(5)]
    [False, False, False, True, True]
    >>> patience.looked("a", changed=False)
    >>> [patience.seen("a", apart) for apart in [False] * 8 + [True, True]][-2:]
    [False, True]
    """

    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def seen(self, name: str, apart: bool) -> bool:
        """Called for every batch; True when the plan must be looked at."""
        course = self._courses.setdefault(name, _Course())
        course.wait = max(0, course.wait - 1)
        course.apart, course.calm = (course.apart + 1, 0) if apart else (0, course.calm + 1)
        if course.calm >= _CALM:
            course.wait, course.patience = 0, 1
        return course.apart >= BATCHES and course.wait == 0

    def looked(self, name: str, changed: bool) -> None:
        """The plan was looked at; a new one begins its own course."""
        course = self._courses.setdefault(name, _Course())
        if changed:
            self._courses[name] = _Course()
        elif course.apart >= BATCHES:
            patience = min(_SELDOM, 2 * course.patience)
            self._courses[name] = _Course(wait=patience, patience=patience)

    def forget(self, name: str) -> None:
        """The plan stands no longer."""
        self._courses.pop(name, None)


def differs(predicted: float, met: float) -> bool:
    """Whether one is more than a quarter above the other.

    >>> differs(1.0, 1.2), differs(1.0, 1.3), differs(1.3, 1.0), differs(1.0, 0.9)
    (False, True, True, False)
    """
    low, high = sorted((predicted, met))
    return high > (1 + APART) * low

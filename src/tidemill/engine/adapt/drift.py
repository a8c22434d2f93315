"""Whether what is measured has drifted from what was predicted when the plan was chosen."""

from __future__ import annotations

from dataclasses import dataclass

APART = 0.25  # share of the prediction by which a batch must differ
BATCHES = 2  # in a row that must differ: one alone may be the last of a file, or have another hour
# Any values work here: a search that finds nothing costs its time only, and `Pace` keeps that below a twentieth.
_SELDOM = 64  # batches between two searches without result, at most
_CALM = 8  # batches in a row as predicted, after which earlier swings are forgotten


class Drift:
    """For each join the plan, what it was predicted to cost, and how many batches in a row have cost something else.

    >>> drift = Drift()
    >>> drift.expect("j", "00", 100.0)
    >>> [drift.observe("j", "00", cost) for cost in (120, 130, 90, 500, 510)]
    [False, False, False, False, True]
    """

    def __init__(self) -> None:
        self._expected: dict[str, tuple[str, float]] = {}
        self._apart: dict[str, int] = {}

    def expect(self, name: str, plan: str, cost: float) -> None:
        """From now on the plan should cost this much."""
        self._expected[name] = plan, cost
        self._apart[name] = 0

    def observe(self, name: str, plan: str, cost: float) -> bool:
        """Record the cost of a batch; True when it and the one before differ from the prediction. Where a plan has no
        prediction, its first batch is the prediction.
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
    """Of one plan: batches in a row that differ (`apart`), and that do not (`calm`); batches to `wait` before the next
    search, and the wait after a search without result (`patience`).
    """

    apart: int = 0
    calm: int = 0
    wait: int = 0
    patience: int = 1


class Patience:
    """When to search for another plan because of drift, where a search takes long: at the second batch in a row that
    differs. Each search without result doubles the wait before the next one, until costs are as predicted for `_CALM`
    batches. So a plan whose costs swing is searched ever less often. Searches for other reasons cause no wait.

    >>> patience = Patience()
    >>> [patience.observe("a", True) for _ in range(3)], patience.observe("b", True)
    ([False, True, True], False)
    >>> patience.record_search("a", changed=False)
    >>> [patience.observe("a", True) for _ in range(3)]
    [False, True, True]
    >>> patience.record_search("a", changed=False)
    >>> [patience.observe("a", True) for _ in range(5)]
    [False, False, False, True, True]
    >>> patience.record_search("a", changed=False)
    >>> [patience.observe("a", apart) for apart in [False] * 8 + [True, True]][-2:]
    [False, True]
    """

    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def observe(self, name: str, apart: bool) -> bool:
        """Called for every batch; True when a search is due."""
        course = self._courses.setdefault(name, _Course())
        course.wait = max(0, course.wait - 1)
        course.apart, course.calm = (course.apart + 1, 0) if apart else (0, course.calm + 1)
        if course.calm >= _CALM:
            course.wait, course.patience = 0, 1
        return course.apart >= BATCHES and course.wait == 0

    def record_search(self, name: str, changed: bool) -> None:
        """A search was made; a new plan begins its own course."""
        course = self._courses.setdefault(name, _Course())
        if changed:
            self._courses[name] = _Course()
        elif course.apart >= BATCHES:
            patience = min(_SELDOM, 2 * course.patience)
            self._courses[name] = _Course(wait=patience, patience=patience)

    def forget(self, name: str) -> None:
        """The plan is not in force any more."""
        self._courses.pop(name, None)


def differs(predicted: float, measured: float) -> bool:
    """Whether one is more than a quarter above the other.

    >>> differs(1.0, 1.2), differs(1.0, 1.3), differs(1.3, 1.0), differs(1.0, 0.9)
    (False, True, True, False)
    """
    low, high = sorted((predicted, measured))
    return high > (1 + APART) * low

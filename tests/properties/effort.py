"""How hard the properties try: a stable few hundred cases by default, thousands when asked.

`TIDEMILL_THOROUGH=1` or `--hypothesis-profile=thorough` makes it 20 times as many cases and draws new ones in every
run; `TIDEMILL_THOROUGH=8` makes it 8 times as many.

hypothesis mixes constants of all modules of the project that are loaded into what it draws, so that the cases of a test
would depend on the tests that ran before it in the same process. Without them a failure in CI is a failure everywhere;
thorough runs keep them.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

USUAL_FACTOR = 20

settings.register_profile("thorough", deadline=None, print_blob=True)


def thorough() -> bool:
    """True when the user asked for thousands of cases."""
    if os.environ.get("TIDEMILL_THOROUGH", "") not in ("", "0"):
        return True
    return settings.get_current_profile_name() == "thorough"


def factor() -> int:
    """How many times as many cases a thorough run tries."""
    given = os.environ.get("TIDEMILL_THOROUGH", "")
    return int(given) if given.isdigit() and int(given) > 1 else USUAL_FACTOR


def _draw_the_same_everywhere() -> None:
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


if not thorough():
    _draw_the_same_everywhere()


def effort(cases: int, thorough_cases: int | None = None) -> settings:
    """Settings of a property that tries `cases` cases in CI; a thorough run tries `factor` times as many, or as many as
    said for the usual factor.
    """
    eager = thorough()
    many = cases * factor() if thorough_cases is None else thorough_cases * factor() // USUAL_FACTOR
    return settings(
        max_examples=max(many, 1) if eager else cases,
        deadline=None,
        derandomize=not eager,
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
    )

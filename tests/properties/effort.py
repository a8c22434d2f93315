"""How hard the properties try: a stable few hundred cases by default, thousands when asked.

`TIDEMILL_THOROUGH=1` or `--hypothesis-profile=thorough` multiplies the cases and draws new ones in every run.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

FACTOR = 20

settings.register_profile("thorough", deadline=None, print_blob=True)


def thorough() -> bool:
    """True when the user asked for thousands of cases."""
    if os.environ.get("TIDEMILL_THOROUGH", "") not in ("", "0"):
        return True
    return settings.get_current_profile_name() == "thorough"


def effort(cases: int) -> settings:
    """Settings of a property that tries `cases` cases in CI."""
    eager = thorough()
    return settings(
        max_examples=cases * FACTOR if eager else cases, deadline=None, derandomize=not eager, print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much,
                               HealthCheck.large_base_example],
    )

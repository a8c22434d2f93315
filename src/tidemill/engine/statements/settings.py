"""SET: one handler for each setting. No setting but `begin` and `time_zone` changes an answer."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.engine.adapt.joins import JOIN_SETTINGS
from tidemill.engine.adapt.sharing import SHARING
from tidemill.engine.results import Created
from tidemill.engine.run.runner import Runner
from tidemill.engine.settings import zones
from tidemill.engine.settings.dead_letters import LETTERS, bounds_of
from tidemill.engine.settings.queries import OPERATORS, QUERYING, QueryLimits, rows, trigger_length
from tidemill.engine.sites.exports import SITE_JOIN, SITE_JOINS
from tidemill.engine.state import DatabaseState
from tidemill.engine.views.answering import SETTING, WAYS
from tidemill.engine.views.history import BEGINNINGS, OPTION
from tidemill.errors import PlanProblem
from tidemill.optimize.optimizer import RULES
from tidemill.plan.statements import Set
from tidemill.runtime import fast_paths

Handler = Callable[[str, str], None]  # name and value of the setting


class Settings:
    """Changes settings; all calls hold the lock of the state."""

    def __init__(self, state: DatabaseState, runner: Runner, querying: QueryLimits) -> None:
        self._state, self._runner, self._querying = state, runner, querying
        self._handlers: dict[str, Handler] = {
            "optimizer_off": self._set_rules,
            "trigger": self._set_trigger,
            "sealed_rows": self._set_plan_limit,
            "fast_paths_off": self._set_fast_paths,
            SETTING: self._set_word,
            OPTION: self._set_word,
            SITE_JOIN: self._set_word,
            **dict.fromkeys(SHARING, self._set_sharing),
            **dict.fromkeys(JOIN_SETTINGS, self._set_join_setting),
            "shared_tagging": self._set_tagging,
            **dict.fromkeys(QUERYING, self._set_query_limit),
            **dict.fromkeys(OPERATORS, self._set_plan_limit),
            **dict.fromkeys(LETTERS, self._set_dead_letters),
            zones.SETTING: self._set_zone,
        }

    def set(self, statement: Set) -> Created:
        """SET name = value."""
        name, value = statement.name.lower(), str(statement.value).strip()
        handler = self._handlers.get(name)
        if handler is None:
            raise PlanProblem(
                "TM217",
                f'there is no setting "{statement.name}" to change',
                hint=f"{', '.join(self._handlers)} can be set; shards and clock are given to tidemill.open",
            )
        handler(name, value)
        return Created("setting", name, f"{name} is {value or 'empty'}")

    def _set_rules(self, _: str, value: str) -> None:
        """Rules that queries created from now on do without."""
        known = [rule.__name__ for rule in RULES]
        rules = tuple(value.replace(",", " ").split())
        unknown = [rule for rule in rules if rule not in known]
        if unknown:
            raise PlanProblem("TM217", f'there is no rule "{unknown[0]}"', hint=f"the rules are {', '.join(known)}")
        self._state.workload.without = rules

    def _set_trigger(self, _: str, value: str) -> None:
        """The least time between batches."""
        self._runner.set_trigger(trigger_length(value, self._state.workload.unit_us))

    def _set_plan_limit(self, name: str, value: str) -> None:
        """A limit that the plan carries: it holds from the next batch on."""
        self._state.catalog.settings[name] = OPERATORS.get(name, rows)(name, value)
        self._runner.change_plan()

    def _set_fast_paths(self, name: str, value: str) -> None:
        """Fast paths that plans do without: it holds from the next batch on."""
        try:
            off = fast_paths.parse_names(value)
        except ValueError as unknown:
            hint = f"the fast paths are {', '.join(fast_paths.NAMES)}"
            raise PlanProblem("TM217", f'there is no fast path "{unknown}"', hint=hint) from None
        self._state.catalog.settings[name] = ", ".join(off)
        self._runner.change_plan()

    def _set_word(self, name: str, value: str) -> None:
        """How queries created from now on are planned, and with what they begin."""
        words = {SETTING: WAYS, OPTION: BEGINNINGS, SITE_JOIN: SITE_JOINS}[name]
        if value.lower() not in words:
            raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(words)}")
        self._state.catalog.settings[name] = value.lower()
        self._state.save_catalog()

    def _set_sharing(self, name: str, value: str) -> None:
        self._state.workload.sharing.set(name, value)
        self._replan(name, value)

    def _set_join_setting(self, name: str, value: str) -> None:
        self._state.workload.join_planning.set(name, value)
        self._replan(name, value)

    def _set_tagging(self, name: str, value: str) -> None:
        self._state.workload.tagging.set(name, value)
        self._replan(name, value)

    def _replan(self, name: str, value: str) -> None:
        self._state.workload.history.record_cause(f"SET {name} = {value}")
        self._runner.change_plan()

    def _set_query_limit(self, name: str, value: str) -> None:
        self._querying.set(name, value)
        self._state.save_catalog()

    def _set_zone(self, name: str, value: str) -> None:
        """The zone in which ad hoc queries are computed and answer."""
        self._state.catalog.settings[name] = zones.read_zone(value)
        self._state.save_catalog()

    def _set_dead_letters(self, name: str, value: str) -> None:
        self._state.catalog.settings[name] = LETTERS[name](name, value)
        self._state.outlet.bounds = bounds_of(self._state.catalog)
        self._state.save_catalog()

"""The parameters of a session that clients set and show. Few of them have an effect; the others are remembered."""

from __future__ import annotations

from tidemill.engine.settings.zones import read_zone
from tidemill.errors import PlanProblem
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.version import __version__

SERVER_VERSION = "15.0"  # whose catalog and messages clients may expect
REPORTED = (  # told to the client at the beginning and when they change
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "default_transaction_read_only",
    "in_hot_standby",
    "is_superuser",
    "session_authorization",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
)
_DEFAULTS = {
    "server_version": f"{SERVER_VERSION} (Tidemill {__version__})",
    "server_version_num": "150000",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "application_name": "",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "repeatable read",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "off",
    "in_hot_standby": "off",
    "is_superuser": "off",
    "session_authorization": "",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "extra_float_digits": "1",
    "search_path": "public",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "max_identifier_length": "128",
    "password_encryption": "scram-sha-256",
    "row_security": "on",
    "synchronous_commit": "on",
    "max_index_keys": "32",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_monetary": "C",
    "jit": "off",
    "xmloption": "content",
    "default_with_oids": "off",
    "default_table_access_method": "heap",
    "synchronize_seqscans": "on",
    "quote_all_identifiers": "off",
}
_FIXED = {"client_encoding": ("utf8", "utf-8", "unicode"), "standard_conforming_strings": ("on", "true", "1")}
_READ_ONLY = {
    "server_version",
    "server_version_num",
    "server_encoding",
    "integer_datetimes",
    "is_superuser",
    "session_authorization",
}
_NAMES = {name.lower(): name for name in _DEFAULTS}
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class SessionSettings:
    """The parameters of one session."""

    def __init__(self, user: str, is_superuser: bool, time_zone: str = "UTC") -> None:
        self._given = {"session_authorization": user, "is_superuser": "on" if is_superuser else "off"}
        self._defaults = {**_DEFAULTS, "TimeZone": time_zone}

    def get(self, name: str) -> str:
        """The value of a parameter; an error where there is none of the name."""
        known = _NAMES.get(name.lower())
        if known is None:
            raise ProtocolProblem("42704", f'unrecognized configuration parameter "{name}"', hint="SHOW SETTINGS")
        return self._given.get(known, self._defaults[known])

    def set(self, name: str, value: str | None) -> str | None:
        """Remember a value, None for the default; the name of the parameter if clients are told about it."""
        known = _NAMES[name.lower()]
        if known in _READ_ONLY and value != self.get(known) and value is not None:
            raise ProtocolProblem("55P02", f'parameter "{known}" cannot be changed')
        if value is not None and known in _FIXED and value.strip("'\"").lower() not in _FIXED[known]:
            raise ProtocolProblem("22023", f"{known} is always {_DEFAULTS[known]}", hint="leave it as it is")
        if value is not None and known == "statement_timeout":
            read_seconds(value)
        if value is not None and known == "TimeZone":
            value = None if value.upper() == "LOCAL" else _read_zone(value)
        before = self.get(known)
        if value is None and known not in _READ_ONLY:
            self._given.pop(known, None)
        elif value is not None:
            self._given[known] = _DEFAULTS[known] if known in _FIXED else value
        return known if known in REPORTED and self.get(known) != before else None

    def reset(self) -> tuple[str, ...]:
        """All values that the client has set are forgotten; the names of parameters that it is told of."""
        before = self.reported_settings()
        self._given = {name: self._given[name] for name in ("session_authorization", "is_superuser")}
        return tuple(name for name in REPORTED if self.get(name) != before[name])

    def reported_settings(self) -> dict[str, str]:
        """What a client is told when it connects."""
        return {name: self.get(name) for name in REPORTED}

    @property
    def time_zone(self) -> str:
        """The zone in which queries are computed and times with a zone are written."""
        return self.get("TimeZone")

    @property
    def timeout(self) -> float | None:
        """Seconds that a query may take; None where the setting of the database holds."""
        return read_seconds(self.get("statement_timeout")) or None

    @staticmethod
    def knows(name: str) -> bool:
        """Whether a parameter is one of the session, in the place of a setting of the database."""
        return name.lower() in _NAMES or "." in name


def _read_zone(value: str) -> str:
    try:
        return read_zone(value.strip("'\""))
    except PlanProblem as unknown:
        message = f'invalid value for parameter "TimeZone": "{value}"'
        raise ProtocolProblem("22023", message, hint=unknown.hint) from None


def read_seconds(value: str) -> float:
    """A length of time as Postgres writes it; a number without a unit counts milliseconds.

    >>> read_seconds("1500"), read_seconds("2s"), read_seconds("1 min")
    (1.5, 2.0, 60.0)
    """
    text = value.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    unit = {"second": "s", "seconds": "s", "sec": "s", "minute": "min", "minutes": "min"}.get(unit, unit)
    try:
        return float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        raise ProtocolProblem("22023", f'"{value}" is no length of time', hint="for example '1s' or 500") from None

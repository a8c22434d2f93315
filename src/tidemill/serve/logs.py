"""The log of the server: one line for each event on standard error, as text or as JSON."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys

from tidemill.serve.postgres.services import log


class JsonLines(logging.Formatter):
    """An object a line: time, level, message, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        found = {"time": at, "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def begin_log(form: str = "text") -> None:
    """Log events from here on. In text, the service manager adds the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter("%(levelname)s %(message)s"))
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
    # It warns of statements that it cannot parse, with their text, which may have a password in it.
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    others = logging.getLogger("uvicorn.error")
    others.handlers[:], others.propagate = [handler], False
    others.setLevel(logging.WARNING)

"""Errors of Spark without the frames of Java's stacks.

The error of a task is repeated on its way through the driver, each time with some hundred frames. Spark looks for the
cause of a failure in that text with a pattern that takes a frame of the stack for each character: stopping a job ended
its thread with a StackOverflowError, and a page of the log for it.
"""

from __future__ import annotations

import re
from typing import Any

MOST = 3000  # characters of a failure; Spark's pattern over its text needs a frame of the stack for each
_MOST_CAUSES = 16  # a chain of causes may be a circle
_FRAME = re.compile(r"\s+(at [\w.$/<>]+[\w$<>]+\(.*\)|\.\.\. \d+ (more|common frames omitted))\s*")
_TELLING = re.compile(r"\s*(Caused by: )?(\S*(Error|Problem|Exception)\b|TM\d{3} )")


class BatchFailed(Exception):
    """Spark could not run a batch; in few words."""


def shorten_failure(error: BaseException) -> BatchFailed:
    """The same failure in few words, with its kind, by which Spark knows an interruption."""
    kind = type(error)
    return BatchFailed(brief(f"{kind.__module__}.{kind.__qualname__}: {error}"))


def describe_failure(query: Any) -> str | None:
    """Why a query of Spark has ended, with the classes of all causes in front; None if it did not fail. Spark's text
    has only messages, and an EOFException, which is what a killed process leaves, has none.
    """
    error = query.exception()
    if error is None:
        return None
    classes: list[str] = []
    java = getattr(query, "_jsq", None)
    cause = None if java is None else java.exception().get().getCause()
    while cause is not None and len(classes) < _MOST_CAUSES:
        classes.append(str(cause.getClass().getName()))
        cause = cause.getCause()
    return "\n".join([*classes, str(error)])


def brief(text: str, most: int = MOST) -> str:
    """A text without frames and repeated lines; where it is still long, its beginning and the lines that say what went
    wrong, the last of them first of all.

    >>> brief("x.E: no\\n\\tat a.B.c(D.scala:1)\\n\\tat a.B$.d(D.scala:2)\\nCaused by: y.F: nil\\n\\t... 12 more\\n")
    'x.E: no\\nCaused by: y.F: nil'
    """
    lines = list(dict.fromkeys(line for line in text.splitlines() if not _FRAME.fullmatch(line)))
    whole = "\n".join(lines)
    if len(whole) <= most:
        return whole
    told = "\n".join(line[: most // 8] for line in lines if _TELLING.match(line))[-most // 2 :]
    return f"{whole[: most // 2 - 5]}\n…\n{told}"

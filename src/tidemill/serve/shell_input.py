"""Input of the shell: several lines up to a semicolon, history, colours, completion of keywords and names."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.styles import Style
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name

from tidemill.engine.script import take_complete
from tidemill.serve.shell import META, Leave, Shell, feed_blocks, parse_meta, split_commands

HISTORY = "shell_history"
_LANGUAGE = (
    "REGISTER SOURCE TABLE FROM PORT FILES GENERATE WITH CREATE OR REPLACE TAGGED STREAM OVER KEY STREAMED COMPLETE "
    "RSTREAM ISTREAM DSTREAM VIRTUAL VIEW AS SINK TO CONSOLE DROP IF NOT EXISTS CASCADE SHOW SOURCES TABLES STREAMS "
    "VIEWS SINKS QUERIES ALL DEAD LETTERS SETTINGS PLANS DESCRIBE EXPLAIN SUBSCRIBE SET SELECT DISTINCT WHERE GROUP "
    "BY HAVING ORDER LIMIT JOIN LEFT RIGHT FULL INNER OUTER ON USING UNION EXCEPT INTERSECT SYNC EVERY ROWS WINDOW "
    "UNTIL NOW RANGE SLIDE SECONDS MINUTES HOURS DAYS INTERVAL COUNT SUM AVG MIN MAX CASE WHEN THEN ELSE END AND IN "
    "IS NULL LIKE BETWEEN CAST INTEGER BIGINT DOUBLE VARCHAR TIMESTAMP BOOLEAN DATE DECIMAL clockStr TimePoint TS"
)
KEYWORDS = _LANGUAGE.split()
_TEXT = (Keys.ControlM, Keys.ControlJ, Keys.ControlI)
STYLE = Style.from_dict(
    {
        "prompt": "ansicyan bold",
        "continuation": "ansibrightblack",
        "pygments.keyword": "ansiblue bold",
        "pygments.literal.string": "ansigreen",
        "pygments.comment": "ansibrightblack",
        "pygments.literal.number": "ansimagenta",
    }
)


class TidemillLexer(SqlLexer):
    """SQL, with the words of our own language as keywords."""

    words: ClassVar = frozenset(word.upper() for word in KEYWORDS)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        for index, kind, value in super().get_tokens_unprocessed(text):
            ours = kind in Name and value.upper() in self.words
            yield index, Keyword if ours else kind, value


class Words(Completer):
    """Completes keywords, and the names in the catalog, which `names` returns."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.lstrip().startswith("\\") and " " not in text.strip():
            word, known = text.lstrip(), list(META)
        else:
            word = document.get_word_before_cursor()
            known = [*self.names(), *KEYWORDS] if word.strip() else []
        for each in dict.fromkeys(known):
            if each.lower().startswith(word.lower()) and each != word:
                yield Completion(each, start_position=-len(word))


def is_complete(text: str) -> bool:
    """Whether Enter executes: nothing, a meta command, or statements with a semicolon behind the last one."""
    last = [text, *split_commands("", text)][-1]
    if not last.strip() or parse_meta(last) is not None:
        return True
    complete, rest = take_complete(last)
    return bool(complete) and not _strip_comments(rest)


def catalog_names(db: Any) -> list[str]:
    """Every name that SHOW ALL lists; none if the statement fails."""
    try:
        table = db.execute("SHOW ALL")
        return [str(name) for name in table.column("name").to_pylist()]
    except Exception:
        return []


def history_path(directory: str | None) -> str:
    """The history file: in the directory of the database, or in the home directory for a temporary one."""
    if directory is None:
        return str(Path.home() / ".tidemill_history")
    os.makedirs(directory, exist_ok=True)
    return os.path.join(directory, HISTORY)


def make_session(shell: Shell, directory: str | None, **parts: Any) -> PromptSession[str]:
    """A prompt for that shell; `parts` replaces its input and output in tests."""
    return PromptSession(
        message=[("class:prompt", "tidemill> ")],
        prompt_continuation=[("class:continuation", "       -> ")],
        multiline=True,
        key_bindings=_bind_keys(),
        history=FileHistory(history_path(directory)),
        lexer=PygmentsLexer(TidemillLexer),
        completer=Words(_cached_names(shell)),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        style=STYLE,
        **parts,
    )


def converse(shell: Shell, prompt: PromptSession[str]) -> None:
    """Read and execute until the end: \\q, exit or ctrl-D. Ctrl-C at the prompt drops what was typed."""
    while True:
        try:
            feed_blocks(shell, [prompt.prompt()])
        except KeyboardInterrupt:
            continue
        except (EOFError, Leave):
            return


def _bind_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        at_end = not buffer.document.text_after_cursor.strip()
        if at_end and is_complete(buffer.text) and not _has_more_input(event):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys


def _has_more_input(event: KeyPressEvent) -> bool:
    """Whether more input is already waiting: text pasted into a terminal without bracketed paste.

    All its statements are executed together, like those of a bracketed paste.
    """
    queued = [press.key for press in event.key_processor.input_queue if press.key != Keys.CPRResponse]
    if queued:  # keys such as ctrl-C or an arrow are typed ahead, not pasted
        return all(len(key) == 1 or key in _TEXT for key in queued)
    return bool(select.select([event.app.input.fileno()], [], [], 0)[0])


def _cached_names(shell: Shell) -> Callable[[], list[str]]:
    """The names in the catalog, looked up once for each prompt at most."""
    known: dict[int, list[str]] = {}

    def names() -> list[str]:
        if shell.fed not in known:
            known.clear()
            known[shell.fed] = catalog_names(shell.db)
        return known[shell.fed]

    return names


def _strip_comments(text: str) -> str:
    """The text without comments of one line, to see whether anything is left."""
    return "".join(line.split("--")[0] for line in text.splitlines()).strip()

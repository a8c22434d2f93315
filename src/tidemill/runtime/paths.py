"""Where things are in a database directory, whose they are, and files that are never seen half-written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from functools import lru_cache
from typing import Any

from tidemill.plan.physical import Physical
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.integrity import damaged, foreign, misfit, missing, openable, parse_stamped, read_bytes, stamp

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_#@-]{0,99}")


class Paths:
    """The folders and files of one database directory."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    @property
    def control(self) -> str:
        """The control file: what the engine requests of the job."""
        return self._at("control.json")

    @property
    def plans(self) -> str:
        """Every plan version that is still needed."""
        return self._at("plans")

    @property
    def sources(self) -> str:
        """What connectors keep, by source instance."""
        return self._at("sources")

    @property
    def feedback(self) -> str:
        """What a batch sends into the next one."""
        return self._at("feedback")

    @property
    def state(self) -> str:
        """Large segments, by shard."""
        return self._at("state")

    @property
    def inbox(self) -> str:
        """Large messages from readers to shards."""
        return self._at("inbox")

    @property
    def outbox(self) -> str:
        """Large messages from shards to the outlet."""
        return self._at("outbox")

    @property
    def checkpoint(self) -> str:
        """Spark's own."""
        return self._at("checkpoint")

    @property
    def views(self) -> str:
        """The view store."""
        return self._at("views.duckdb")

    @property
    def answer_files(self) -> str:
        """Rows of append-only views, as the shards wrote them."""
        return self._at("sealed")

    @property
    def undelivered(self) -> str:
        """What sinks could not deliver yet."""
        return self._at("undelivered")

    @property
    def departures(self) -> str:
        """The outboxes of edges to other sites."""
        return self._at("departures")

    @property
    def awaited_edges(self) -> str:
        """A file for each edge whose time another site waits for."""
        return os.path.join(self.departures, ".awaited")

    @property
    def full_outboxes(self) -> str:
        """A file for each outbox that is full."""
        return os.path.join(self.departures, ".full")

    @property
    def catalog(self) -> str:
        """What stands."""
        return self._at("catalog.json")

    @property
    def lock(self) -> str:
        """Held by the process that has the database open."""
        return self._at("lock")

    @property
    def status(self) -> str:
        """The last status, for other processes."""
        return self._at("status.json")

    @property
    def operators(self) -> str:
        """What operators did."""
        return self._at("operators.json")

    @property
    def measures(self) -> str:
        """Samples of join values of this site's streams."""
        return self._at("measures.json")

    @property
    def progress(self) -> str:
        """The progress of the last batch, for the planner."""
        return self._at("progress.json")

    @property
    def log(self) -> str:
        """The log of Spark."""
        return self._at("spark.log")

    @property
    def format(self) -> str:
        """The id and the format of the database."""
        return self._at("format.json")

    @property
    def backup(self) -> str:
        """In a copy: of which database and when."""
        return self._at("backup.json")

    @property
    def requests(self) -> str:
        """What other processes ask of the one that has the database open."""
        return self._at("requests")

    def _at(self, name: str) -> str:
        return os.path.join(self.root, name)

    @property
    def database(self) -> str:
        """The id that every part of this database carries; '' in a folder that is none."""
        try:
            facts = os.stat(self.format)
        except OSError:
            return ""
        return _identity(self.format, facts.st_mtime_ns, facts.st_ino)

    def plan(self, version: int) -> str:
        return os.path.join(self.plans, f"{version:08d}.json")

    def source(self, instance: str) -> str:
        return os.path.join(self.sources, folder_name(instance))

    def source_mark(self, instance: str) -> str:
        """The file that names the database and the source to which a folder belongs."""
        return os.path.join(self.source(instance), "source.json")

    @property
    def checkpoint_mark(self) -> str:
        """The file that names the database to which Spark's checkpoint belongs."""
        return os.path.join(self.checkpoint, "tidemill.json")

    def shard(self, shard: int) -> str:
        return os.path.join(self.state, str(shard))

    def feedback_notes(self, batch: int) -> str:
        return os.path.join(self.feedback, f"{batch:012d}.json")

    def feedback_rows(self, batch: int) -> str:
        return os.path.join(self.feedback, f"{batch:012d}.arrow")


def folder_name(name: str) -> str:
    """A user's name as the name of one folder, whatever is in it; plain names stay as they are.

    >>> folder_name("Readings#2"), folder_name("../../evil"), folder_name("..")
    ('Readings#2', '~..-..-evil-0fbfd372', '~..-5ec1f7e7')
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", name)[:40]
    return f"~{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def write_json(path: str, data: dict[str, Any]) -> None:
    """Replace a JSON file in one step; its checksum is in it."""
    write_bytes(path, stamp(json.dumps(data).encode()))


def write_bytes(path: str, data: bytes) -> None:
    """Replace a file in one step: readers see the old or the new content, never a part.

    Who may list the folder may read the file: a database that is shared is shared as a whole.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".part-")
    with os.fdopen(handle, "wb") as out:
        others = os.stat(folder).st_mode & 0o044
        if others:
            os.fchmod(out.fileno(), 0o600 | others)
        out.write(data)
    with openable(path):
        os.replace(temporary, path)


def read_json(path: str) -> Any:
    """The content of a JSON file, None when there is none; a file that is not what was written is refused."""
    try:
        return parse_stamped(path, read_bytes(path))
    except FileNotFoundError:
        return None


def read_part(paths: Paths, path: str) -> Any:
    """Like `read_json`; a file of another database is refused."""
    found = read_json(path)
    if found is not None:
        check_owner(paths, path, found)
    return found


def read_feedback(paths: Paths, batch: int) -> Any:
    """The notes of what a batch sent round, None when there are none; those of another batch are refused."""
    path = paths.feedback_notes(batch)
    found = read_part(paths, path)
    if found is not None and found.get("batch", batch) != batch:
        raise misfit(path, f"it has the notes of batch {found['batch']}, not of batch {batch}")
    return found


def owner_of(folder: str) -> Paths:
    """The database that the folder of a source is in."""
    return Paths(os.path.dirname(os.path.dirname(os.path.abspath(folder))))


def check_owner(paths: Paths, path: str, found: dict[str, Any]) -> None:
    """A part of this database carries its id."""
    mine = paths.database
    if mine and found.get("database") != mine:
        raise foreign(path, str(found.get("database", "")), mine)


def write_plan(paths: Paths, plan: Physical) -> None:
    """Keep a plan version; it never changes once it is written."""
    text = plan.to_json().rstrip().removesuffix("}").rstrip()
    text += f',\n"database": {json.dumps(paths.database)}\n}}'
    path = paths.plan(plan.version)
    write_bytes(path, stamp(text.encode()))
    _keep_plan((path, os.stat(path).st_mtime_ns), plan)  # what is read from the file is equal to it


def load_plan(path: str) -> Physical:
    """A plan version; plans never change once written."""
    try:
        # The time differs for the plan of a directory that was removed and made again in the life of this process.
        with openable(path):
            known = path, os.stat(path).st_mtime_ns
        return _plans[known] if known in _plans else _keep_plan(known, _parse_plan(path))
    except FileNotFoundError:
        raise missing(path, "a batch that is planned needs it") from None


_MOST_PLANS = 16  # of the newest plans: a batch needs the one in force and the one before
_plans: dict[tuple[str, int], Physical] = {}  # by path and time of writing


def _keep_plan(known: tuple[str, int], plan: Physical) -> Physical:
    _plans[known] = plan
    for old in list(_plans)[:-_MOST_PLANS]:
        _plans.pop(old, None)
    return plan


def _parse_plan(path: str) -> Physical:
    with seldom_collected():
        found = parse_stamped(path, read_bytes(path))
        check_owner(Paths(os.path.dirname(os.path.dirname(path))), path, found)
        try:
            plan = Physical.from_dict(found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(path, f"it is not a plan: {error!r}") from error
        if f"{plan.version:08d}.json" != os.path.basename(path):
            raise misfit(path, f"it has plan {plan.version}")
        return plan


@lru_cache(maxsize=64)
def _identity(path: str, written: int, inode: int) -> str:
    return str((read_json(path) or {}).get("database", ""))

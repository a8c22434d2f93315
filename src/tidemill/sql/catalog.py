"""What has been registered and created: plain data that survives as JSON. Names are case-insensitive."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemill.errors import CatalogProblem
from tidemill.plan.sources import SourceSpec
from tidemill.plan.user_aggregates import UserAggregateDefinition
from tidemill.plan.user_functions import UserFunction

CLOCK = "clockstr"
# How views are bound and optimized: 0 before synchronizers had an algebra of points; 1 before windows over views share
# and selections that may fail stay above taggers.
PLANNING = 3
VIRTUAL = "virtual"  # the output of views that are unfolded into their readers
Kind = Literal["source", "table", "stream", "view", "query", "sink", "aggregate", "function", "site", "edge"]


@dataclass
class Entry:
    """A named thing. `needs` are the names it reads; `text` is the statement that made it."""

    kind: Kind
    name: str
    text: str
    needs: tuple[str, ...] = ()
    spec: SourceSpec | None = None  # sources and tables
    key: tuple[str, ...] = ()  # streams
    birth: int = 0  # plan version in which it began to read
    id: str = ""  # never used again, names tables and folders
    output: str = "complete"  # views
    options: dict[str, Any] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)  # views: rows of each stream that came before them
    answered: list[dict[str, Any]] = field(default_factory=list)  # views: parts that are read from other views
    aliases: dict[str, str] = field(default_factory=dict)  # hidden views: ids of views that were dropped, by name
    planning: int = 0  # views: the `PLANNING` of their creation; their state fits that plan only
    moment: int | None = None  # views that read their streams again: when they were created, in event time

    @property
    def is_stored(self) -> bool:
        """True for views and standing queries with operators and tables of their own."""
        return self.kind in ("view", "query") and self.output != VIRTUAL

    @property
    def number(self) -> int:
        """The order in which views were created; their ids are numbered."""
        return int(self.id.removeprefix("v"))

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "spec": self.spec.to_dict() if self.spec else None}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Entry:
        spec = SourceSpec.from_dict(data["spec"]) if data["spec"] else None
        return Entry(**{**data, "spec": spec, "needs": tuple(data["needs"]), "key": tuple(data["key"])})


@dataclass
class User:
    """A user of the server. `verifier` proves knowledge of the password without containing it."""

    name: str
    verifier: str
    privileges: list[str] = field(default_factory=list)  # create, all
    reads: list[str] = field(default_factory=list)  # names in lower case

    @property
    def reads_everything(self) -> bool:
        """Who defines views may define one over anything, and so may read everything."""
        return bool(self.privileges)


@dataclass
class Catalog:
    """All entries in the order of their creation, and the settings of the database."""

    entries: dict[str, Entry] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    counter: int = 0
    version: int = 0  # of the plan
    saved: int = 0  # how many times it was written
    hidden: dict[str, Entry] = field(default_factory=dict)  # dropped views that still answer others, by id
    users: dict[str, User] = field(default_factory=dict)  # by name in lower case

    def __post_init__(self) -> None:
        # Statements look for sources and edges, of which there are few, among views, of which there may be thousands.
        self._by_kind: dict[Kind, dict[str, Entry]] = {}
        for name, entry in self.entries.items():
            self._by_kind.setdefault(entry.kind, {})[name] = entry

    def find(self, name: str, *kinds: Kind, line: int | None = None, column: int | None = None) -> Entry:
        """The entry of that name, of one of the kinds; a clear error otherwise."""
        entry = self.entries.get(name.lower())
        if entry is None or (kinds and entry.kind not in kinds):
            wanted = " or ".join(kinds) if kinds else "stream, view or table"
            raise CatalogProblem(
                "TM301",
                f'there is no {wanted} named "{name}"',
                detail=f'"{name}" is a {entry.kind}' if entry else None,
                hint=self._suggestion(name, kinds),
                line=line,
                column=column,
            )
        return entry

    def user_aggregate(self, name: str) -> UserAggregateDefinition | None:
        """The user's aggregate of that name, if there is one."""
        entry = self.entries.get(name.lower())
        return UserAggregateDefinition(entry.name, **entry.options) if entry and entry.kind == "aggregate" else None

    def user_function(self, name: str) -> UserFunction | None:
        """The user's scalar function of that name, if there is one."""
        entry = self.entries.get(name.lower())
        return _function(entry) if entry and entry.kind == "function" else None

    def user_functions(self) -> tuple[UserFunction, ...]:
        """All scalar functions of the user."""
        return tuple(map(_function, self.of("function")))

    def add(self, entry: Entry) -> None:
        """A new entry; the name must be free."""
        self.check_free(entry.name)
        self.entries[entry.name.lower()] = entry
        self._by_kind.setdefault(entry.kind, {})[entry.name.lower()] = entry

    def check_free(self, name: str) -> None:
        taken = self.entries.get(name.lower())
        if taken or name.lower() == CLOCK or name.lower() == "dead_letters":
            what = taken.kind if taken else "built-in relation"
            raise CatalogProblem(
                "TM302",
                f'the name "{name}" is taken by a{"n" * (what == "aggregate")} {what}',
                hint="choose another name, or DROP it first; IF NOT EXISTS keeps what is there",
            )

    def forget_grants(self) -> None:
        """Take back what was granted on names that are gone: whatever has such a name later is something else."""
        for user in self.users.values():
            user.reads = [name for name in user.reads if name in self.entries]

    def dependents(self, name: str) -> list[Entry]:
        """Everything that reads `name`, directly or through others, in the order of creation."""
        found, count = {name.lower()}, 0
        # What a hidden view reads is needed by the views that it answers; a view that it reads would be hidden as well.
        unseen = () if self.entries[name.lower()].is_stored else self.hidden.values()
        through = {h.id for h in unseen if self._reads(h, name, set())}
        while len(found) > count:  # a view whose plan has changed reads streams that are younger
            count = len(found)
            for key, entry in self.entries.items():
                if found & {n.lower() for n in entry.needs} or through & {a["view"] for a in entry.answered}:
                    found.add(key)
        return [entry for key, entry in self.entries.items() if key in found and key != name.lower()]

    def _reads(self, hidden: Entry, name: str, seen: set[str]) -> bool:
        """Whether a hidden view reads something, also through other hidden views."""
        if hidden.id in seen:
            return False
        seen.add(hidden.id)
        below = [*hidden.aliases.values(), *(a["view"] for a in hidden.answered)]
        direct = name.lower() in {n.lower() for n in hidden.needs if n.lower() not in hidden.aliases}
        return direct or any(self._reads(self.hidden[i], name, seen) for i in below if i in self.hidden)

    def remove(self, name: str) -> Entry:
        """Take an entry out. A view that others are answered from is hidden: it has no name, and runs on for them."""
        entry = self.entries.pop(name.lower())
        del self._by_kind[entry.kind][name.lower()]
        if entry.is_stored:
            self._hide(entry)
            self._forget_unread()
        return entry

    def _hide(self, entry: Entry) -> None:
        name = entry.name.lower()
        readers = [h for h in self.hidden.values() if name in {n.lower() for n in h.needs} and name not in h.aliases]
        for reader in readers:
            reader.aliases[name] = entry.id
        self.hidden[entry.id] = entry

    def _forget_unread(self) -> None:
        """Hidden views go when the last view that they answer is gone."""
        while True:
            read = {a["view"] for e in (*self.entries.values(), *self.hidden.values()) for a in e.answered}
            read |= {i for h in self.hidden.values() for i in h.aliases.values()}
            unread = [i for i in self.hidden if i not in read]
            if not unread:
                return
            for i in unread:
                del self.hidden[i]

    def of(self, *kinds: Kind) -> Iterator[Entry]:
        """Entries of these kinds, oldest first, as they are at this moment: other threads may look meanwhile."""
        if len(kinds) == 1:
            return iter(list(self._by_kind.get(kinds[0], {}).values()))
        return (e for e in list(self.entries.values()) if e.kind in kinds)

    def next_id(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "entries": [e.to_dict() for e in self.entries.values()],
            "settings": self.settings,
            "counter": self.counter,
            "version": self.version,
            "saved": self.saved,
            "hidden": [e.to_dict() for e in self.hidden.values()],
            "users": [vars(user) for user in self.users.values()],
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Catalog:
        entries = [Entry.from_dict(e) for e in data["entries"]]
        return Catalog(
            {e.name.lower(): e for e in entries},
            data["settings"],
            data["counter"],
            data["version"],
            data.get("saved", 0),
            {e["id"]: Entry.from_dict(e) for e in data.get("hidden", ())},
            {u["name"].lower(): User(**u) for u in data.get("users", ())},
        )

    def _suggestion(self, name: str, kinds: tuple[Kind, ...]) -> str:
        known = [e.name for e in self.entries.values() if not kinds or e.kind in kinds]
        near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1)
        if near:
            return f"did you mean {next(k for k in known if k.lower() == near[0])}?"
        return "SHOW ALL lists what there is"


def _function(entry: Entry) -> UserFunction:
    given = entry.options
    return UserFunction(entry.name, tuple(given["accepts"]), given["returns"], given["body"])

"""A database without an engine: it remembers what it was asked and answers from dictionaries."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from tidemill.errors import CatalogProblem
from tidemill.plan.statements import CreateView, Describe, Explain, Select, Show, Subscribe
from tidemill.sql.lexical.tokens import where
from tidemill.sql.parse.statements import parse

CHANGES = pa.table(
    {
        "TAG": ["+", "u", "-"],
        "TS": [1, 2, 3],
        "VType": ["car", "car", "bus"],
        "n": [1, 2, 1],
        "OLD": pa.array([None, {"VType": "car", "n": 1}, None], pa.struct([("VType", pa.string()), ("n", pa.int64())])),
    }
)
STATUS = {
    "running": True,
    "batch": 4,
    "plan": 2,
    "clock": "1970-01-01 00:00:05.000000",
    "sources": [
        {
            "name": "S",
            "kind": "generate",
            "rows": 1200,
            "late": 1,
            "bad": 0,
            "frontier": "1970-01-01 00:00:05.000000",
            "lag_seconds": 0.5,
            "rows_per_second": 40.0,
            "idle": False,
        }
    ],
    "views": [{"name": "Lot", "output": "complete", "rows": 3, "frontier": "1970-01-01 00:00:05.000000"}],
    "state": {"rows": 1234, "bytes": 56_789},
    "last_batch": {"batch_seconds": 0.45},
}


class Explanation:
    def __str__(self):
        return "Filter\n  Scan"

    def to_dict(self):
        return {"node": "Filter"}

    def to_mermaid(self):
        return "flowchart TD\n  a --> b"


class FakeSubscription:
    """The given tables, then ctrl-C."""

    def __init__(self, *tables, interrupt=True):
        self.tables, self.interrupt, self.closed = list(tables), interrupt, False

    def next(self, timeout=None):
        if self.tables:
            return self.tables.pop(0)
        if self.interrupt and timeout:
            raise KeyboardInterrupt
        return None

    def close(self):
        self.closed = True


class FakeDatabase:
    def __init__(self, **answers):
        self.log: list[str] = []
        self.calls: list[str] = []
        self.answers = answers
        self.is_running = False
        self.batch = 0
        self.paths = SimpleNamespace(log="spark.log")
        self.subscriptions: list[FakeSubscription] = []

    def execute(self, text, tell=None):
        result = None
        self.calls.append(text)
        for statement in parse(text):
            self.log.append(statement.text)
            if "missing" in statement.text:
                line, column = where(text, text.index("missing"))
                raise CatalogProblem(
                    "TM301", 'there is no view named "missing"', hint="SHOW VIEWS", line=line, column=column
                )
            result = self._result(statement)
            if tell:
                tell(result)
        return result

    def _result(self, statement):
        if isinstance(statement, Subscribe):
            return self.subscribe(statement.name)
        if isinstance(statement, Explain):
            return Explanation()
        if isinstance(statement, (Show, Describe)):
            return pa.table(
                {
                    "name": ["S", "Lot"],
                    "kind": ["source", "view"],
                    "definition": ["REGISTER SOURCE S", "CREATE VIEW Lot AS SELECT b FROM s"],
                }
            )
        if isinstance(statement, Select) and statement.output is None:
            return self.query(statement.text)
        if isinstance(statement, Select):
            return SimpleNamespace(kind="query", name="query_1", message="query_1 stands")
        name = getattr(statement, "name", "it")
        return SimpleNamespace(
            kind="view" if isinstance(statement, CreateView) else "other", name=name, message=f"{name} created"
        )

    def run(self, progress=None, final=False):
        self.log.append("<final>" if final else "<run>")
        if progress:
            progress(
                {
                    "batch": 1,
                    "rows": 10,
                    "total_rows": 10,
                    "rows_per_second": 5.0,
                    "clock": 1,
                    "state_rows": 2,
                    "state_bytes": 3,
                }
            )
        return SimpleNamespace(batches=2, rows=1200, seconds=0.5, late=1, bad=0, warnings=("1 row of S was late",))

    def start(self):
        self.log.append("<start>")
        self.is_running, self.batch = True, self.batch + 1

    def stop(self):
        self.log.append("<stop>")
        self.is_running = False

    def close(self):
        self.log.append("<close>")

    def query(self, text):
        for part, table in self.answers.items():
            if part in text:
                return table
        return pa.table({"VType": ["car", None], "n": [2, 1]})

    def query_together(self, texts):
        return {name: self.query(text) for name, text in texts.items()}

    def changes(self, name):
        return CHANGES

    def subscribe(self, name):
        self.subscriptions.append(FakeSubscription(CHANGES))
        return self.subscriptions[-1]

    def explain(self, text):
        self.log.append(f"<explain> {text.strip()}")
        return Explanation()

    def status(self):
        return {**STATUS, "running": self.is_running, "batch": self.batch}

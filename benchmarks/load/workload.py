"""The views of the load, and what readers ask of them."""

from __future__ import annotations

KEYS = 1000
VIEWS = 50


def statements(rate: int) -> str:
    """The source and its views: windows of many ranges, running groups, and views over views."""
    return f"""
        REGISTER SOURCE Packets (k INTEGER, proto INTEGER, len INTEGER)
        FROM GENERATE (rate = {rate}, start = 'now', k = 'uniform(1,{KEYS})', proto = 'uniform(0,9)',
                       len = 'uniform(40,1500)');
        CREATE TAGGED STREAM P OVER Packets;
        {";".join(views())}
    """


def views() -> list[str]:
    """The fifty definitions.

    >>> len(views())
    50
    """
    made = []
    for i in range(20):  # windows by key, each of one protocol
        slide = 2 + i % 4
        window = f"[RANGE {slide * (1 + i % 3)} SECONDS SLIDE {slide} SECONDS]"
        made.append(f"CREATE VIEW W{i} AS SELECT k, count(*) AS n, sum(len) AS bytes FROM P {window}"
                    f" WHERE proto = {i % 10} GROUP BY k")  # fmt: skip
    for i in range(10):  # windows by protocol
        made.append(f"CREATE VIEW G{i} AS SELECT proto, count(*) AS n, max(len) AS longest"
                    f" FROM P [RANGE {2 + i} SECONDS SLIDE {2 + i} SECONDS] GROUP BY proto")  # fmt: skip
    for i in range(10):  # running groups, shown every second
        made.append(f"CREATE VIEW R{i} AS SELECT k, count(*) AS n FROM P SYNC EVERY 1 SECOND"
                    f" WHERE len > {100 * i + 500} AND proto = {i} GROUP BY k")  # fmt: skip
    for i in range(10):  # views over views
        made.append(f"CREATE VIEW T{i} AS SELECT k % 10 AS part, sum(n) AS n, max(n) AS most FROM R{i} GROUP BY k % 10")
    return made


def questions(reader: int) -> list[str]:
    """What one reader asks in turn: a row, a group, the first rows of a view, a join of views."""
    i = reader % 10
    return [
        f"SELECT n FROM R{i} WHERE k = {reader * 37 % KEYS + 1}",
        f"SELECT proto, n FROM G{i} ORDER BY proto",
        f"SELECT k, bytes FROM W{reader} ORDER BY bytes DESC LIMIT 10",
        f"SELECT t.part, t.n, r.n AS one FROM T{i} t JOIN R{i} r ON r.k = t.part ORDER BY t.part",
    ]


def followed(subscriber: int) -> str:
    """The view that a subscriber follows: those that are shown every second, and views over them."""
    return f"{'RT'[subscriber // 10 % 2]}{subscriber % 10}"

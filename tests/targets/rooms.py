"""A database with a keyed view over files that a test fills, and every kind of change."""

from __future__ import annotations

from tests.harness import LocalDatabase

CHANGES = (
    [(1, 10.5, "a", "i"), (2, 20.0, "b", "i"), (3, 30.0, "it's", "i")],
    [(2, 21.0, "b", "u"), (4, 40.0, "", "i"), (2, 22.0, "b2", "u")],
    [(1, 0.0, "", "d"), (3, 31.0, 'quote"d', "u")],
    [(1, 11.0, "again", "i"), (4, 0.0, "", "d"), (5, 50.0, "ü", "i")],
)


class Rooms:
    """The view V has the key room."""

    def __init__(self, path):
        self.files = path / "in"
        self.files.mkdir(exist_ok=True)
        self.path = str(path / "db")
        self.count = 0

    def open(self):
        return LocalDatabase(self.path)

    def define(self, db):
        db.execute(
            f"REGISTER SOURCE R (room INTEGER, temp DOUBLE, note VARCHAR, op VARCHAR) FROM FILES '{self.files}/*.csv'"
            " WITH (operation = 'op'); CREATE TAGGED STREAM S OVER R KEY room;"
            " CREATE VIEW V AS SELECT room, temp, note FROM S"
        )

    def add(self, rows):
        self.count += 1
        lines = "".join(f'{room},{temp},"{note.replace(chr(34), chr(34) * 2)}",{op}\n' for room, temp, note, op in rows)
        (self.files / f"{self.count:03}.csv").write_text("room,temp,note,op\n" + lines)

    def rows(self, db):
        return [tuple(row.values()) for row in db.query("SELECT room, temp, note FROM V ORDER BY room").to_pylist()]


def apply(changes):
    """What a changelog (tag, room, temp, note), in order, leaves."""
    rows = {}
    for tag, room, temp, note in changes:
        if tag == "-":
            del rows[room]
        else:
            assert (room in rows) == (tag == "u")
            rows[room] = (room, temp, note)
    return sorted(rows.values())


def draw_changes(draw, known):
    """Some rooms, whether they are there or not."""
    rows = []
    for room in draw.sample(range(8), 4):
        op = draw.choice("ud") if room in known else "i"
        known ^= {room} if op != "u" else set()
        rows.append((room, draw.randint(0, 99) / 2, draw.choice(("", "a", "it's")), op))
    return rows

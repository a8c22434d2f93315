"""What the documentation prints is executed, and what it says comes out does come out.

The word behind ``` says what a block is; the words behind that are for this test:

    sql                     a fresh database, after the page's `setup` block; run as `tidemill run` would
    sql setup               what every later block of the page begins with
    sql then                goes on in the database of the block before
    sql refused TM204       every statement is refused with this code
    sql fragment            a piece of syntax, not executed (python fragment as well)
    csv data/rooms.csv      a file that the blocks read; with `later` it appears where it stands
    text                    what the last question of the block before answers
    text changes Hot        the changes of a view, in the notation Tag<attributes>TS
    python                  executed with tidemill.open; `python then` keeps the names of the block before
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import tidemill
from tests.harness import LocalDatabase
from tests.live import LiveDatabase
from tests.places import ROOT, SOURCE
from tidemill.engine.script import place_statements, setup_and_questions
from tidemill.errors import TidemillError
from tidemill.serve.cli import app

PAGES = ("README.md", "docs/start.md", "docs/recipes.md", "docs/python.md", "docs/language.md")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s]+)[^)]*\)|!\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its kind, the words behind it, its text, and where it stands."""

    page: str
    line: int
    kind: str
    words: tuple[str, ...]
    text: str


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], tuple(found[2].split()), found[3])
        for found in FENCE.finditer(text)
    ]


def examples(page: str) -> list[list[Block]]:
    """Blocks that belong together: one that begins something, and what follows from it."""
    groups: list[list[Block]] = []
    for block in blocks(page):
        if "later" in block.words or block.kind == "text" or block.words[:1] == ("then",):
            groups[-1].append(block)
        elif block.kind in ("sql", "python") and not {"fragment", "setup"} & set(block.words):
            groups.append([block])
    return groups


def write_file(block: Block) -> None:
    path = Path(block.words[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with the files of all pages; tidemill.open gives databases without Spark."""
    monkeypatch.chdir(tmp_path)
    for page in PAGES:
        for block in blocks(page):
            if block.kind in ("csv", "json") and "later" not in block.words:
                write_file(block)
    opened: list[LocalDatabase] = []

    def open_(path: str, **options: Any) -> LocalDatabase:
        opened.append(LiveDatabase(path, **{"shards": 2, **options}))
        return opened[-1]

    monkeypatch.setattr(tidemill, "open", open_)
    yield tmp_path
    for db in opened:
        db.close()


def run(db: LocalDatabase, text: str) -> Any:
    """As `tidemill run`: declarations, then the data, then the questions at the end."""
    declared, questions = setup_and_questions(place_statements(text))
    result = None
    for part in declared:
        result = db.execute(part.text)
    db.run()
    for part in questions:
        result = db.execute(part.text)
    return result


def shown(table: pa.Table) -> str:
    """A table as the pages print it.

    >>> print(shown(pa.table({"a": [1, 20], "b": ["x", None]})))
    a  b
    1  x
    20 NULL
    """
    cells = [table.column_names, *([_cell(v) for v in row.values()] for row in table.to_pylist())]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = (" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def changes(db: LocalDatabase, name: str) -> str:
    """The changes of a view, those of one time on one line."""
    lines: dict[Any, list[str]] = {}
    for row in db.changes(name).to_pylist():
        values = [v for k, v in row.items() if k not in ("TAG", "TS", "OLD")] or [row["TS"]]
        lines.setdefault(row["TS"], []).append(f"{row['TAG']}<{','.join(_cell(v) for v in values)}>{row['TS']}")
    return "\n".join("  ".join(line) for line in lines.values())


def setup_of(page: str) -> str:
    return "\n".join(b.text for b in blocks(page) if b.kind == "sql" and b.words[:1] == ("setup",))


def refused(db: LocalDatabase, block: Block) -> None:
    for part in place_statements(block.text):
        with pytest.raises(TidemillError) as caught:
            db.execute(part.text)
            db.run()
        assert caught.value.code == block.words[1], part.statement.text
        assert caught.value.hint, f"{caught.value.code} has no hint"


ALL = [group for page in PAGES for group in examples(page)]


@pytest.mark.parametrize("group", ALL, ids=[f"{g[0].page}:{g[0].line}" for g in ALL])
def test_examples_do_what_they_say(group, place):
    db, result, names = None, None, {}
    for block in group:
        here = f"{block.page}:{block.line}"
        if block.kind in ("csv", "json"):
            write_file(block)
            continue
        if block.kind == "python":
            exec(compile(block.text, here, "exec"), names)
            continue
        if block.kind == "text":
            assert db is not None, f"{here} follows no SQL"
            found = changes(db, block.words[1]) if block.words else shown(result)  # type: ignore[arg-type]
            assert found == block.text.rstrip("\n"), here
            continue
        if db is None:
            db = tidemill.open("db")
            db.execute(setup_of(block.page))
        if block.words[:1] == ("refused",):
            refused(db, block)  # type: ignore[arg-type]
        else:
            result = run(db, block.text)  # type: ignore[arg-type]


def test_readme_from_top_to_bottom(place):
    """In one folder, as a reader does it: what one example leaves behind is not in the way of the next."""
    for number, block in enumerate(b for b in blocks("README.md") if b.kind in ("sql", "python")):
        if block.kind == "python":
            exec(compile(block.text, f"README.md:{block.line}", "exec"), {})
            continue
        name = "rooms" if number == 0 else f"example{number}"
        (place / f"{name}.sql").write_text(block.text, encoding="utf-8")
        done = CliRunner().invoke(app, ["run", f"{name}.sql", "--db", name])
        assert done.exit_code == 0, f"README.md:{block.line} {done.output}"


def test_the_readme_repeats_the_benchmark_page():
    """The rows of its table begin with W1, W2, W3 and the numbers of the page."""
    page = (
        (ROOT / "docs/benchmarks/README.md").read_text(encoding="utf-8").partition("**Million rows/s, whole query")[2]
    )
    measured = {
        work: re.search(rf"^\| {work} (\|( [\d.]+ \|){{4}})", page, re.MULTILINE)[1] for work in ("W1", "W2", "W3")
    }
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    repeated = dict(re.findall(r"^\| (W\d): [^|]+ (\|(?: [\d.]+ \|){4})$", readme, re.MULTILINE))
    assert repeated == measured


def test_every_page_has_examples():
    assert {group[0].page for group in ALL} == set(PAGES)
    assert len(ALL) > 30


def documents() -> list[Path]:
    top = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return [*(ROOT / name for name in top), *sorted((ROOT / "docs").rglob("*.md"))]


def test_links_lead_somewhere():
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in documents()
        for found in LINK.finditer(page.read_text(encoding="utf-8"))
        if not (target := found[1] or found[2]).startswith(("http://", "https://", "mailto:"))
        and not (page.parent / target).exists()
        and not target.endswith("benchmarks/README.md")
    ]
    assert not broken


def test_the_reference_knows_every_error_code():
    used = {code for path in SOURCE.rglob("*.py") for code in re.findall(r'"(TM\d{3})"', path.read_text())}
    listed = set(re.findall(r"^\| (TM\d{3}) \|", (ROOT / "docs/language.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert used == listed


def test_the_reference_knows_every_option():
    from tidemill.sql.parse.options import KNOWN

    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    assert not [option for known in KNOWN.values() for option in known if f"| `{option}` |" not in text]


def test_the_reference_lists_the_rules_in_their_order():
    from tidemill.optimize.optimizer import RULES

    section = (ROOT / "docs/language.md").read_text(encoding="utf-8").partition("### Rules")[2].partition("\n# ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [rule.__name__ for rule in RULES]


def test_the_reference_knows_every_function():
    from tidemill.sql.bind.functions import ALLOWED

    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    section = text.partition("## Functions")[2].partition("\n## ")[0]
    # Operators, and names that only the parser has for functions listed under another one.
    inside = {
        "anonymous",
        "case",
        "cast",
        "try_cast",
        "is_nan",
        "is_inf",
        "int_div",
        "safe_divide",
        "pad",
        "sha2",
        "split",
        "date_from_parts",
        "time_from_parts",
        "timestamp_from_parts",
    }
    assert not sorted(f for f in ALLOWED - inside if not re.search(rf"\b{f}\b", section))


def test_generated_lists_of_functions_are_those_of_the_catalogue():
    from tidemill.sql.bind.catalogue import aggregate_functions, scalar_functions

    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    for title, names in (("functions", scalar_functions()), ("aggregates", aggregate_functions())):
        listed = text.partition(f"```names {title}\n")[2].partition("```")[0].split()
        assert listed == sorted(names), f"write the {title} into docs/language.md"

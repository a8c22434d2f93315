"""A plan as a picture for notebooks: sources on the left, views on the right, a column for each depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from tidemill.plan.node import walk
from tidemill.plan.relations import Relation

_WIDTH, _HEIGHT, _GAP, _ROW = 200, 40, 46, 14
_MOST = 60  # boxes; larger plans are text
_LONGEST = 30  # letters in a line


def plan_svg(roots: Mapping[str, Relation], detail: Callable[[Relation], str]) -> str:
    """The picture; empty where it would be too large to read."""
    nodes: dict[str, Relation] = {}
    for root in roots.values():
        nodes |= {n.fingerprint: n for n in walk(root) if isinstance(n, Relation)}
    if not nodes or len(nodes) + len(roots) > _MOST:
        return ""
    depth: dict[str, int] = {}
    for found in nodes:
        _measure(nodes, found, depth)
    column = {f"view {name}": 1 + depth[root.fingerprint] for name, root in roots.items()} | depth
    places = _place(column)
    lines = [_line(places[c.fingerprint], places[n.fingerprint]) for n in nodes.values() for c in n.children]
    lines += [_line(places[root.fingerprint], places[f"view {name}"]) for name, root in roots.items()]
    boxes = [_box(places[f], type(n).__name__, detail(n), "#eef2f7") for f, n in nodes.items()]
    boxes += [_box(places[f"view {name}"], name, "view", "#d6e6ff") for name in roots]
    width = max(x for x, _ in places.values()) + _WIDTH + 4
    height = max(y for _, y in places.values()) + _HEIGHT + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
        f' aria-label="plan of {escape(", ".join(roots), quote=True)}" style="max-width:100%">'
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _measure(nodes: Mapping[str, Relation], found: str, depth: dict[str, int]) -> int:
    if found not in depth:
        depth[found] = 1 + max((_measure(nodes, c.fingerprint, depth) for c in nodes[found].children), default=-1)
    return depth[found]


def _place(column: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    filled: dict[int, int] = {}
    places = {}
    for name, where in column.items():
        row = filled.get(where, 0)
        filled[where] = row + 1
        places[name] = (2 + where * (_WIDTH + _GAP), 2 + row * (_HEIGHT + _ROW))
    return places


def _line(a: tuple[int, int], b: tuple[int, int]) -> str:
    x, y, u, v = a[0] + _WIDTH, a[1] + _HEIGHT // 2, b[0], b[1] + _HEIGHT // 2
    middle = (x + u) // 2
    return f'<path d="M{x},{y} C{middle},{y} {middle},{v} {u},{v}" fill="none" stroke="#8a97a8"/>'


def _box(at: tuple[int, int], title: str, below: str, fill: str) -> str:
    """
    >>> "&lt;b&gt;" in _box((0, 0), "<b>", "", "red")
    True
    """
    x, y = at
    middle = x + _WIDTH // 2
    return (
        f"<g><title>{escape(f'{title} {below}')}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{fill}" stroke="#5b6778"/>'
        f'<text x="{middle}" y="{y + 17}" text-anchor="middle" font-size="12" font-weight="600" fill="#1b2330">'
        f"{escape(_cut(title))}</text>"
        f'<text x="{middle}" y="{y + 32}" text-anchor="middle" font-size="10" fill="#5b6778">'
        f"{escape(_cut(below))}</text></g>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

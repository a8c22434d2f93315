"""Entries of a kind are those of that kind among all entries, in the order of their creation."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tidemill.sql.catalog import Catalog, Entry, Kind

KINDS = get_args(Kind)
steps = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(KINDS)), max_size=20)


@given(steps=steps, reopened=st.booleans())
def test_entries_of_kinds(steps, reopened):
    """A name that is taken is dropped, and created again by the next step that has it."""
    catalog = Catalog()
    for number, (name, kind) in enumerate(steps):
        if name in catalog.entries:
            catalog.remove(name.upper())
        else:
            catalog.add(Entry(kind, name, "", id=f"v{number}"))
        if reopened:
            catalog = Catalog.from_dict(catalog.to_dict())
        for wanted in (("source",), ("edge",), ("view",), ("view", "query"), KINDS):
            assert list(catalog.of(*wanted)) == [e for e in catalog.entries.values() if e.kind in wanted]

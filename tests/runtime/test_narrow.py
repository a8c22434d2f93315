from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.runtime.duckdb.wide_integers import narrow_table

WIDE = pa.decimal128(38, 0)
NUMBERS = st.one_of(st.none(), st.integers(-(2**63) - 2, 2**63 + 2), st.integers(-(10**37), 10**37))


@settings(deadline=None)
@given(chunks=st.lists(st.lists(NUMBERS, max_size=4), max_size=3), start=st.integers(0, 3))
def test_no_value_changes_and_what_fits_is_narrow(chunks, start):
    arrays = [pa.array([v if v is None else Decimal(v) for v in values], WIDE) for values in chunks]
    table = pa.table({"w": pa.chunked_array(arrays, WIDE), "other": pa.nulls(sum(map(len, chunks)))}).slice(start)
    found = narrow_table(table)
    values = [None if v is None else int(v) for v in table.column("w").to_pylist()]
    assert [None if v is None else int(v) for v in found.column("w").to_pylist()] == values
    fits = all(v is None or -(2**63) <= v < 2**63 for v in values)
    assert found.schema.field("w").type == (pa.int64() if fits else WIDE)
    assert found.column_names == table.column_names

"""What an offset carries: its checksum, its database and its batch.

Offsets are kept in files of others, which are found by the number of their batch. An offset that is put in the place of
another one is therefore known by what is in it. One without these keys is from before there were any, or the first.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from tidemill.runtime.integrity import damaged, foreign, misfit
from tidemill.runtime.paths import Paths

Offset = dict[str, Any]
_SELF = ("batch", "database", "sum")


def same_place(one: Offset, other: Offset) -> bool:
    """Whether two offsets are the same place in the input: there is nothing to read between them.

    >>> same_place({"plan": 1, "batch": 4, "sum": 7}, {"plan": 1}), same_place({"plan": 1}, {"plan": 2})
    (True, False)
    """
    return _content(one) == _content(other)


def sign_offset(end: Offset, start: Offset, reached: int | None, database: str) -> Offset:
    """The end of the batch that follows `start`. `reached` is the last batch that is done, for a start without one."""
    before = start.get("batch", reached)
    own = {} if before is None else {"batch": before + 1}
    found = {**end, **own, **({"database": database} if database else {})}
    return {**found, "sum": offset_sum(found)}


def offset_sum(offset: Offset) -> int:
    """The checksum of an offset."""
    text = json.dumps({name: value for name, value in offset.items() if name != "sum"}, sort_keys=True)
    return zlib.crc32(text.encode())


def check_offset(paths: Paths, path: str, offset: Offset, batch: int | None = None) -> None:
    """Refuse an offset that was not logged so, in this database, for this batch."""
    if "sum" in offset and offset["sum"] != offset_sum(offset):
        raise damaged(path, "the checksum of an offset is not that of its content")
    database = paths.database
    if database and offset.get("database", database) != database:
        raise foreign(path, str(offset["database"]), database)
    if batch is not None and offset.get("batch", batch) != batch:
        raise misfit(path, f"it is the offset of batch {offset['batch']}, not of batch {batch}")


def _content(offset: Offset) -> Offset:
    return {name: value for name, value in offset.items() if name not in _SELF}

"""A checkpoint in another place than before: the directory was moved, copied, renamed, or is opened through a link.

Everything that Tidemill keeps in a database directory is found from the directory, never by an absolute path. Spark
keeps one: the metadata of the stateful operator name the file with the schema of its state by its full path. Before a
job starts, that path is made the one of today. A checkpoint that was elsewhere also gets a new query id: Spark runs one
query of an id at a time, and the directory that it was copied from may be running.
"""

from __future__ import annotations

import glob
import json
import os
import re
import uuid
from contextlib import suppress
from typing import Any

from tidemill.runtime.integrity import damaged
from tidemill.runtime.paths import Paths, write_bytes

# Greedy: the place itself may have such folders on its way.
_SCHEMA_FILE = re.compile(r"(?P<scheme>file:)?(?P<place>/.*)(?P<rest>/state/\d+/_stateSchema/[^/]+/[^/]+)", re.DOTALL)


def relocate_checkpoint(paths: Paths) -> bool:
    """Write the checkpoint's present path into it; True where it had another one. No job may be running."""
    folder = os.path.join(glob.escape(paths.checkpoint), "state", "*", "_metadata", "v2", "*")
    moved = [path for path in sorted(glob.glob(folder)) if _relocate_metadata(path, paths.checkpoint)]
    if moved and os.path.exists(os.path.join(paths.checkpoint, "metadata")):
        _replace(os.path.join(paths.checkpoint, "metadata"), json.dumps({"id": str(uuid.uuid4())}))
    return bool(moved)


def relocate_path(path: str, checkpoint: str) -> str:
    """A path into a checkpoint, as it is in the checkpoint of today; others stay.

    >>> relocate_path("file:/data/db1/checkpoint/state/0/_stateSchema/default/0_ab", "/data/db2/checkpoint")
    'file:/data/db2/checkpoint/state/0/_stateSchema/default/0_ab'
    >>> relocate_path("hdfs://h/db1/checkpoint/state/0/_stateSchema/default/0_ab", "/data/db2/checkpoint")
    'hdfs://h/db1/checkpoint/state/0/_stateSchema/default/0_ab'
    """
    found = _SCHEMA_FILE.fullmatch(path)
    return f"{found['scheme'] or ''}{checkpoint}{found['rest']}" if found else path


def _relocate_metadata(path: str, checkpoint: str) -> bool:
    with open(path, encoding="utf-8") as file:
        version, _, text = file.read().partition("\n")
    try:
        facts: dict[str, Any] = json.loads(text)
        stores = facts["stateStoreInfo"]
        before = [store["stateSchemaFilePaths"] for store in stores]
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, f"it is not what Spark notes of a stateful operator: {error!r}") from error
    for store in stores:
        store["stateSchemaFilePaths"] = [relocate_path(name, checkpoint) for name in store["stateSchemaFilePaths"]]
    if [store["stateSchemaFilePaths"] for store in stores] == before:
        return False
    _replace(path, f"{version}\n{json.dumps(facts, separators=(',', ':'))}")
    return True


def _replace(path: str, text: str) -> None:
    write_bytes(path, text.encode())
    with suppress(FileNotFoundError):  # Hadoop's checksum of the bytes before
        os.remove(os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.crc"))

"""What sinks could not deliver yet: files that name their place, one for each micro-batch and sink.

A file is a line of JSON, the content to deliver, and the checksum of both. The line names the database, the sink, the
batch, and the batch of the file before it. The batches of the first and of the last file of each sink (`spans`) are
committed with every batch of the views, so a lost file is noticed. A file that was delivered is removed after the
commit: a batch that is replayed, after a crash for example, delivers it once more under the same batch.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidemill.errors import EngineProblem
from tidemill.runtime.durable import write_file
from tidemill.runtime.integrity import RESTORE, checksum_of, damaged, foreign, misfit, missing, read_bytes
from tidemill.runtime.paths import Paths

NONE = -1  # the batch before that of the first file
_ENDING = ".waiting"
_SUM_BYTES = 8  # of the checksum at the end of a file
Spans = dict[str, tuple[int, int, str]]  # key of a sink → batches of its first and last file, ending of their names


class Waiting(NamedTuple):
    """One file: what is to be delivered, under which name, of which batch."""

    name: str
    batch: int
    before: int
    content: bytes


class Undelivered:
    """The files that wait, by the key of their sink, which is the name of a folder."""

    def __init__(self, paths: Paths, committed: str | None) -> None:
        """`committed` are the spans as JSON; None of a database from before there were any."""
        self._paths = paths
        self.spans: Spans = {}
        self._committed = (
            self._adopt() if committed is None else {k: tuple(v) for k, v in json.loads(committed).items()}
        )
        self.begin()

    def meta(self) -> dict[str, str]:
        """What is committed with a batch."""
        return {"undelivered": json.dumps(self.spans)}

    def begin(self) -> None:
        """Forget what an attempt that failed has done."""
        self.spans = dict(self._committed)

    def settle(self) -> None:
        """The spans are committed: remove what is delivered, or was written by an attempt that failed."""
        self._committed = dict(self.spans)
        for key in _names(self._paths.undelivered):
            folder = self._folder(key)
            if key not in self.spans:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            first, last, _ = self.spans[key]
            for name in _names(folder):
                if name.endswith(_ENDING) and not first <= _batch(name) <= last:
                    os.remove(os.path.join(folder, name))

    def keep(self, key: str, name: str, batch: int, content: bytes) -> None:
        """One more file for a sink; that of the same batch of an earlier attempt is replaced."""
        first, last, ending = self.spans.get(key, (batch, NONE, name[name.index(".") :]))
        head = {"database": self._paths.database, "sink": key, "batch": batch, "before": last, "size": len(content)}
        data = json.dumps(head).encode() + b"\n" + content
        path = os.path.join(self._folder(key), name + _ENDING)
        write_file(path, data + checksum_of(data).to_bytes(_SUM_BYTES, "little"))
        self.spans[key] = first, batch, ending

    def deliver(self, key: str, send: Callable[[Waiting], bool]) -> None:
        """Send the files of a sink in their order until one is not taken; each is verified before."""
        _, last, ending = self.spans[key]
        for found in self._files(key):
            self.spans[key] = found.batch, last, ending
            if not send(found):
                return
        del self.spans[key]

    def verify(self) -> int:
        """Check every file; how many there are."""
        return sum(1 for key in self.spans for _ in self._files(key))

    def _files(self, key: str) -> Iterator[Waiting]:
        """The files of a sink; one that is missing is an error."""
        first, last, _ = self.spans[key]
        before = NONE
        for name in self._names(key):
            found = read_waiting(self._paths, os.path.join(self._folder(key), name))
            if before == NONE and found.batch != first:
                raise self._lost_file(key, first)
            if before != NONE and found.before != before:
                raise self._lost_file(key, found.before)
            before = found.batch
            yield found
        if before != last:
            raise self._lost_file(key, last if before != NONE else first)

    def drop(self, key: str) -> None:
        """A sink that no longer exists."""
        self.spans.pop(key, None)

    def count(self, key: str) -> int:
        """How many files wait for a sink."""
        return len(self._names(key))

    def _names(self, key: str) -> list[str]:
        first, last, _ = self.spans.get(key, (0, NONE, ""))
        found = [name for name in _names(self._folder(key)) if name.endswith(_ENDING)]
        return [name for name in found if first <= _batch(name) <= last]

    def _lost_file(self, key: str, batch: int) -> EngineProblem:
        name = f"changes-{batch:012d}{self.spans[key][2]}{_ENDING}"
        return missing(os.path.join(self._folder(key), name), "the sink has not got its changes yet", _HINT)

    def _folder(self, key: str) -> str:
        return os.path.join(self._paths.undelivered, key)

    def _adopt(self) -> Spans:
        """Files from before there were checksums get one now."""
        for key in _names(self._paths.undelivered):
            for name in _names(self._folder(key)):
                path = os.path.join(self._folder(key), name)
                plain = not name.endswith(_ENDING)
                # Those with the ending were written by an earlier attempt to adopt.
                content = read_bytes(path) if plain else read_waiting(self._paths, path).content
                self.keep(key, name.removesuffix(_ENDING), _batch(name), content)
                if plain:
                    os.remove(path)
        return dict(self.spans)


_HINT = f"{RESTORE}; or drop the sink and create it again: it begins anew"


def read_waiting(paths: Paths, path: str) -> Waiting:
    """A file that waits in a database; refused where it is not what was written."""
    name = os.path.basename(path).removesuffix(_ENDING)
    data = read_bytes(path)
    body, wanted = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    if len(data) < _SUM_BYTES or checksum_of(body).to_bytes(_SUM_BYTES, "little") != wanted:
        raise damaged(path, "its checksum is not that of its content", _HINT)
    line, _, content = body.partition(b"\n")
    head = json.loads(line)
    if head["database"] != paths.database:
        raise foreign(path, head["database"], paths.database)
    folder = os.path.basename(os.path.dirname(path))
    if head["sink"] != folder or head["batch"] != _batch(name):
        raise misfit(path, f"it has the changes of batch {head['batch']} for the sink in {head['sink']}")
    return Waiting(name, head["batch"], head["before"], content)


def _batch(name: str) -> int:
    return int(name.removeprefix("changes-").split(".")[0])


def _names(folder: str) -> list[str]:
    return sorted(n for n in os.listdir(folder) if not n.startswith(".")) if os.path.isdir(folder) else []

"""The keys of a table of PostgreSQL, in files: what they say is what a dictionary says, after any cuts and crashes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidemill.runtime.sources.postgres.keys import OPERATION, KeyFiles, alive


class Crash(BaseException):
    """What ends a process in the middle."""


@pytest.mark.parametrize("seed", range(20))
def test_keys_are_those_of_a_dictionary(tmp_path, monkeypatch, seed):
    rng, known, slices = random.Random(seed), {}, []
    write = KeyFiles._write
    for _ in range(rng.randint(1, 30)):
        changes = [(str(rng.randint(1, 20)), rng.choice("cud")) for _ in range(rng.randint(0, 9))]
        known |= dict(changes)
        slices.append(pa.table({"id": [k for k, _ in changes], OPERATION: [op for _, op in changes]}, SCHEMA))
        if rng.random() < 0.3:
            monkeypatch.setattr(KeyFiles, "_write", lambda self, *what: fail_after(rng, write, self, *what))
        files = KeyFiles(tmp_path)
        try:
            if (first := files.next_slice()) < len(slices):
                files.add(len(slices), slices[first:])
        except Crash:
            pass
        monkeypatch.setattr(KeyFiles, "_write", write)
        files = KeyFiles(tmp_path)
        found = alive([*files.tables(), *slices[files.next_slice() :]]).column("id").to_pylist()
        assert sorted(found) == sorted(key for key, op in known.items() if op != "d")
    assert len(list(tmp_path.iterdir())) <= 20


SCHEMA = pa.schema([("id", pa.string()), (OPERATION, pa.string())])


def fail_after(rng, write, *arguments):
    if rng.random() < 0.5:
        write(*arguments)
    raise Crash

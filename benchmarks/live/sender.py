"""Sensor readings as lines of text, sent as fast as they are taken or at a given rate."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import numpy as np

from benchmarks import data

SENSORS, ROOMS, KINDS, HIGH = 1_000, 40, 8, 100.0
COLUMNS = "sensor INTEGER, value DOUBLE, kind VARCHAR, n BIGINT, at TIMESTAMP"
_BLOCK, _STEP_S, _FLOOD = 100_000, 0.01, 5_000
_NOW = "2020-01-01T00:00:00.000000"
_START_US, _APART_US = 1_700_000_000_000_000, 10


def lines(form: str, rows: int, seed: int, first_us: int, apart_us: int) -> bytes:
    """Readings in CSV or JSON, `apart_us` microseconds from each other; 0.6 % of the values are above HIGH."""
    chance = np.random.default_rng(seed)
    columns = [
        chance.integers(0, SENSORS, rows).tolist(),
        np.round(chance.normal(50, 20, rows), 2).tolist(),
        chance.integers(0, KINDS, rows).tolist(),
        chance.integers(0, 10**6, rows).tolist(),
        np.datetime_as_string(np.datetime64(first_us, "us") + (np.arange(rows) * apart_us).astype("m8[us]")).tolist(),
    ]
    if form == "csv":
        return "".join([f"{s},{v},k{k},{n},{at}\n" for s, v, k, n, at in zip(*columns, strict=True)]).encode()
    return "".join(
        [
            f'{{"sensor":{s},"value":{v},"kind":"k{k}","n":{n},"at":"{at}"}}\n'
            for s, v, k, n, at in zip(*columns, strict=True)
        ]
    ).encode()


def prepared(form: str, rows: int) -> str:
    """A file of readings, the same in every run."""

    def write(folder: str) -> None:
        with open(os.path.join(folder, "lines"), "wb") as file:
            for at in range(0, rows, _BLOCK):
                file.write(lines(form, min(_BLOCK, rows - at), at, _START_US + at * _APART_US, _APART_US))

    return os.path.join(data._cached(f"live-{form}-{rows}", write), "lines")


def table(folder: str) -> str:
    """The rooms of the sensors, as a CSV file."""
    path = os.path.join(folder, "sensors.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("sensor,room\n" + "".join(f"{i},r{i % ROOMS}\n" for i in range(SENSORS)))
    return path


class Blocks:
    """Blocks of CSV lines of one length, for a sender that makes them as fast as a port takes them: only the times are
    written anew. The first row of a block passes the filter.
    """

    def __init__(self, rows: int) -> None:
        chance = np.random.default_rng(5)
        values = chance.uniform(10, 99, rows).round(1)
        values[0] = HIGH + 1
        sensors, kinds = chance.integers(100, SENSORS, rows), chance.integers(0, KINDS, rows)
        text = "".join(
            f"{sensors[i]},{values[i]:05.1f},k{kinds[i]},{100_000 + i % 900_000},{_NOW}\n" for i in range(rows)
        )
        self.lines = np.frombuffer(bytearray(text.encode()), np.uint8).reshape(rows, -1)

    def at(self, seconds: float) -> memoryview:
        """The block with this time."""
        stamp = np.datetime_as_string(np.datetime64(round(seconds * 1e6), "us"))
        self.lines[:, -1 - len(_NOW) : -1] = np.frombuffer(str(stamp).encode(), np.uint8)
        return self.lines.data.cast("B")


class Sender:
    """Sends to a port that listens, or serves those who connect."""

    def push(self, path: str, port: int) -> float:
        """Send a file as fast as it is taken; when that began."""
        began = time.time()
        with socket.create_connection(("127.0.0.1", port)) as taker, open(path, "rb") as file:
            while block := file.read(1 << 18):
                taker.sendall(block)
        return began

    def pace(self, port: int, rate: int, seconds: float) -> int:
        """Send readings of this moment at a rate; how many."""
        with socket.create_connection(("127.0.0.1", port)) as taker:
            return self._paced([taker], rate, seconds)

    def flood(self, port: int, seconds: float) -> int:
        """Send readings of this moment as fast as they are taken; how many."""
        blocks, sent, began = Blocks(_FLOOD), 0, time.time()
        with socket.create_connection(("127.0.0.1", port)) as taker:
            while time.time() - began < seconds:
                taker.sendall(blocks.at(time.time()))
                sent += _FLOOD
        return sent

    def listen(self) -> int:
        """Open a port for takers."""
        self.server = socket.create_server(("127.0.0.1", 0))
        return int(self.server.getsockname()[1])

    def serve(self, path: str, takers: int) -> float:
        """Send a file to this many takers, each as fast as the slowest; when that began."""
        sockets = [self.server.accept()[0] for _ in range(takers)]
        began = time.time()
        with open(path, "rb") as file:
            while block := file.read(1 << 16):
                for taker in sockets:
                    taker.sendall(block)
        self._kept = sockets  # a taker whose connection closes stops asking
        return began

    def serve_paced(self, takers: int, rate: int, seconds: float) -> int:
        """Send readings of this moment to this many takers at a rate; how many to each."""
        sockets = [self.server.accept()[0] for _ in range(takers)]
        sent = self._paced(sockets, rate, seconds)
        self._kept = sockets
        return sent

    def _paced(self, takers: list[socket.socket], rate: int, seconds: float) -> int:
        sent = 0
        for elapsed in _ticks(seconds):
            due = int(elapsed * rate) - sent
            if due > 0:
                text = lines("csv", due, sent, time.time_ns() // 1000 - due, 1)
                for taker in takers:
                    taker.sendall(text)
                sent += due
        return sent


def _ticks(seconds: float) -> Iterator[float]:
    began = time.time()
    while (elapsed := time.time() - began) < seconds:
        yield elapsed
        time.sleep(_STEP_S)

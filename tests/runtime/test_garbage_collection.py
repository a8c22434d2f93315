"""What is made in a block of seldom collections is old behind it, and garbage among it is still found."""

from __future__ import annotations

import gc
import weakref

import pytest

from tidemill.runtime import fast_paths, garbage_collection
from tidemill.runtime.garbage_collection import seldom_collected


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def nothing_frozen():
    """Tests run with what was there before them frozen; a process usually has nothing frozen."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def collections():
    """The generations that were collected since the test began."""
    seen: list[int] = []

    def note(phase, info):
        if phase == "stop":
            seen.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def make_many():
    """More objects than are looked through at the end of a block."""
    return [Ring() for _ in range(garbage_collection.MANY + 10)]


def test_many_objects_are_not_looked_through_at_the_end_of_a_block(collections):
    with seldom_collected():
        kept = make_many()
        ring = weakref.ref(Ring())
    later = [[] for _ in range(1_000)]  # a collection of the youngest, which has only these
    assert kept and later and 2 not in collections
    assert ring() is not None
    gc.collect()
    assert ring() is None


def test_without_gc_control_they_are(collections):
    with fast_paths.without(["gc_control"]), seldom_collected():
        kept = make_many()
    assert kept and 1 in collections


def test_objects_that_a_process_has_frozen_stay_frozen():
    gc.collect()
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with seldom_collected():
            kept = make_many()
        assert kept and before * 0.9 < gc.get_freeze_count() <= before
    finally:
        gc.unfreeze()


def test_after_very_many_objects_garbage_is_collected(collections, monkeypatch):
    monkeypatch.setattr(garbage_collection, "MOST_AGED", garbage_collection.MANY // 2)
    with seldom_collected():
        ring = weakref.ref(Ring())
        kept = make_many()
    assert kept and ring() is None and 2 in collections

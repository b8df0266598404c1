"""Reply memory is reused only after all arrays that refer to it are gone, and holds them whole."""

import weakref
from typing import Any

import numpy as np
import pytest

from twofold.client import payloads
from twofold.client.payloads import BufferPool, Layout
from twofold.errors import ProtocolError
from twofold.v1 import environment_pb2 as environment


@pytest.mark.skipif(payloads._UNUSED < 0, reason="this interpreter's counts say too little")
def test_an_array_is_reused_once_all_views_of_it_are_gone() -> None:
    pool = BufferPool()
    first, address = pool.take(64)
    assert first.ctypes.data == address
    view = np.ndarray((4,), np.int32, first.data, 16)
    del first
    assert pool.take(64)[1] != address, "a view is still there"
    part = view[1:]
    del view
    assert pool.take(64)[1] != address, "a view of the view is still there"
    del part
    assert pool.take(64)[1] == address


def test_arrays_still_in_use_are_all_different() -> None:
    pool = BufferPool()
    held = [pool.take(1000)[0] for _ in range(50)]
    for number, array in enumerate(held):
        array[:] = number
    assert all((array == number).all() for number, array in enumerate(held))


def test_sizes_are_exact() -> None:
    pool = BufferPool()
    assert [pool.take(size)[0].size for size in (1, 2, 1, 0, 4096)] == [1, 2, 1, 0, 4096]


def test_unused_arrays_of_other_sizes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = BufferPool()
    unused = weakref.ref(pool.take(1000)[0])

    def empty(size: int, dtype: type) -> Any:
        if size and unused() is not None:
            raise MemoryError
        return np.zeros(size, dtype)

    monkeypatch.setattr(np, "empty", empty)
    assert pool.take(64)[0].size == 64


@pytest.mark.parametrize(
    ("offset", "length"), [(8, 3), (10, 1), (2**31 - 1, 1), (2**63, 1), (0, 2**40)]
)
def test_an_array_outside_its_payload_is_refused(offset: int, length: int) -> None:
    wire = environment.PayloadLayout(size=10)
    wire.arrays.add(name="reward", dtype=environment.DATA_TYPE_UINT8, shape=[length], offset=offset)
    with pytest.raises(ProtocolError, match="places 'reward' outside its payload"):
        Layout(wire, ("reward",))

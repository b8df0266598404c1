"""A reader for n-tuple networks trained by other programs.

    network = twofold.policies.read_network("best_standard_network.bin")
    network.save("best_standard_network.npz")

`read_network` reads two formats and distinguishes them by their first bytes: Szubert and
Jaśkowski's 2048 (github.com/mszubert/2048) and TDL2048-Demo (github.com/moporgic/TDL2048-Demo).
Both are for 4 x 4 boards.
"""

from __future__ import annotations

import contextlib
import io
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from twofold import _text
from twofold.errors import InvalidArgument
from twofold.policies.served_policies import NTuple

# Szubert and Jaśkowski's program writes the number of its class before each object.
_NETWORK, _LIST, _TUPLE, _INTS, _DOUBLES = 796418617, 123499, 570718399, 14, 1234
_IDENTITY, _STANDARD = 840142292, 121345704

_MAX_RATIO = 64
"""The largest accepted ratio of decompressed to compressed bytes. zlib reaches 1000 for zeros."""


def read_network(path: str | PathLike[str]) -> NTuple:
    """Reads a network file written by Szubert and Jaśkowski's 2048 or by TDL2048-Demo.

    The weights become float32. Exponents above the network's largest are treated as the largest.
    (For such exponents, the original programs would read a wrong weight.)

    Args:
        path: The file: `players/best_standard_network.bin` from the first program, or `2048.bin`
            from the second.

    Raises:
        InvalidArgument: The file has another format, is damaged, or is not for 4 x 4 boards.
            `field` is "path", and `lane` is the index of the faulty tuple.
        OSError: The file can't be read.
    """
    with _text.open_file(path, "path") as file:
        try:
            first = file.peek(2)[:2]
            # zlib's header (RFC 1950, section 2.2); a network of 120 tuples begins with 0x78, too.
            if first[:1] == b"\x78" and int.from_bytes(first, "big") % 31 == 0:
                return _szubert(_Reader(io.BytesIO(_decompressed(file.read())), ">"))
            return _tdl_demo(_Reader(file, "<"))
        except (InvalidArgument, zlib.error, MemoryError) as error:
            lane = getattr(error, "lane", None)
            raise InvalidArgument(
                f"{path} is not a readable network from Szubert and Jaśkowski's 2048 or "
                f"TDL2048-Demo: {str(error) or 'it does not fit in memory'}",
                field="path",
                lane=lane,
            ) from error


def _decompressed(data: bytes) -> bytes:
    """Returns the content of a zlib stream that is not much larger than the stream."""
    stream, limit = zlib.decompressobj(), _MAX_RATIO * len(data)
    content = stream.decompress(data, limit)
    if len(content) == limit and not stream.eof:
        raise InvalidArgument(
            f"its data is more than {_MAX_RATIO} times as large as the file; compress it less, for "
            "example by zlib.compress(data, level=0)"
        )
    if not stream.eof:
        raise InvalidArgument("its compressed data is incomplete")
    if stream.unused_data:
        raise InvalidArgument("extra bytes follow its compressed data")
    return content


class _Reader:
    """A reader of numbers from a file, in one byte order."""

    def __init__(self, file: BinaryIO, order: str) -> None:
        self._file, self._order, self._place = file, order, 0

    def take(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        taken = self._file.read(size)
        self._place += len(taken)
        if len(taken) < size:
            raise InvalidArgument(f"it ends at byte {self._place}, inside a value")
        return taken

    def number(self, kind: str) -> int:
        """Returns the next integer. `kind` is its format character in `struct`: "i" or "Q"."""
        value: int = struct.unpack(self._order + kind, self.take(struct.calcsize("<" + kind)))[0]
        return value

    def expect(self, kind: str, wanted: int) -> None:
        """Reads the next integer, which must be `wanted`."""
        self.within(kind, wanted, wanted)

    def within(self, kind: str, lowest: int, highest: int) -> int:
        """Returns the next integer, which must be in the range lowest ... highest."""
        at, value = self._place, self.number(kind)
        if not lowest <= value <= highest:
            wanted = str(lowest) if lowest == highest else f"{lowest} ... {highest}"
            raise InvalidArgument(f"at byte {at} there is {value} instead of {wanted}")
        return value

    def weights(self, kind: str, count: int) -> NDArray[np.float32]:
        """Returns the next `count` numbers. `kind` is their numpy dtype: "f4" or "f8"."""
        size = count * np.dtype(kind).itemsize
        numbers = np.frombuffer(self.take(size), self._order + kind)
        with np.errstate(over="ignore"):
            weights = numbers.astype(np.float32)
        if not np.isfinite(weights).all():
            raise InvalidArgument("a weight is not a finite float32")
        return weights

    def end(self) -> None:
        """Checks that the file ends here."""
        if self._file.read(1):
            raise InvalidArgument(
                f"extra bytes follow the network, which ends at byte {self._place}"
            )


def _szubert(reader: _Reader) -> NTuple:
    """Reads a network written by Szubert and Jaśkowski's program.

    Numbers are big-endian, as in Java. In a weight's index, the exponent in the tuple's first cell
    is the most significant digit. In `NTuple`, it is the least significant one, so this function
    reverses the order of the cells and keeps the tables.
    """
    reader.expect("i", _NETWORK)
    reader.expect("i", _LIST)
    tables: list[tuple[list[int], NDArray[np.float32]]] = []
    base = 0
    for index in range(reader.within("i", 1, 256)):
        with _tuple(index):
            reader.expect("i", _TUPLE)
            base = reader.within("i", base or 2, base or 32)  # one base for all tuples
            reader.expect("i", _INTS)
            cells = [_cell(reader.number("i")) for _ in range(reader.within("i", 1, 12))]
            reader.expect("i", _DOUBLES)
            reader.expect("i", base ** len(cells))
            tables.append((_different(cells), reader.weights("f8", base ** len(cells))))
    expander = reader.number("i")
    if expander == _STANDARD:
        reader.expect("i", 4)  # the side of the board
    elif expander != _IDENTITY:
        raise InvalidArgument(
            f"its symmetry type is {expander}; expected {_IDENTITY} or {_STANDARD}"
        )
    reader.end()
    is_expanded = expander == _STANDARD
    # NTuple sums over all eight rotations and reflections. If the program sums over fewer, each of
    # them becomes a tuple here.
    is_symmetric = is_expanded and all(len(_images(cells)) == 8 for cells, _ in tables)
    if is_expanded and not is_symmetric:
        tables = [(image, table) for cells, table in tables for image in _images(cells)]
    return NTuple(
        [cells[::-1] for cells, _ in tables],
        [table for _, table in tables],
        exponents=base,
        symmetric=is_symmetric,
        size=4,
    )


def _tdl_demo(reader: _Reader) -> NTuple:
    """Reads a network written by TDL2048-Demo.

    Numbers are little-endian. Cells and weights are numbered as in NTuple. The program sums each
    tuple over all eight rotations and reflections of the board.
    """
    cells: list[list[int]] = []
    weights: list[NDArray[np.float32]] = []
    for index in range(reader.within("Q", 1, 256)):
        with _tuple(index):
            name = reader.take(reader.within("i", 1, 64))
            found = re.fullmatch(rb"(\d+)-tuple pattern ([0-9a-f]{1,7})", name)
            if found is None or int(found[1]) != len(found[2]):
                raise InvalidArgument(f"its name is {name!r}; expected '4-tuple pattern 0123'")
            cells.append(_different([int(digit, 16) for digit in found[2].decode()]))
            reader.expect("Q", 16 ** len(cells[-1]))
            weights.append(reader.weights("f4", 16 ** len(cells[-1])))
    reader.end()
    return NTuple(cells, weights, exponents=16, symmetric=True, size=4)


@contextlib.contextmanager
def _tuple(index: int) -> Iterator[None]:
    """Adds the tuple's index to errors that the `with` block raises."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f"tuple {index}: {error}", lane=index) from error


def _cell(place: int) -> int:
    """Returns the number of a cell on the 4 x 4 board, row by row.

    `place` is the cell's number on a 6 x 6 board, which has a margin of one cell.
    """
    row, column = place // 6 - 1, place % 6 - 1
    if not (0 <= row < 4 and 0 <= column < 4):
        raise InvalidArgument(f"place {place} is not a cell of the 4 x 4 board inside its margin")
    return 4 * row + column


def _different(cells: list[int]) -> list[int]:
    """Returns the cells unchanged. Raises InvalidArgument if two of them are equal."""
    if len(set(cells)) != len(cells):
        raise InvalidArgument(f"its cells {cells} are not all different")
    return cells


def _images(cells: Sequence[int]) -> list[list[int]]:
    """Returns the rotations and reflections of a tuple, without duplicates.

    Szubert and Jaśkowski's program sums over them. Two of them are duplicates if they have the same
    cells in any order; only the first is kept. For example, four remain for a line of four cells.
    """
    board = np.arange(16).reshape(4, 4)
    flipped = [board, board[:, ::-1], board[::-1], board[::-1, ::-1]]
    images: dict[tuple[int, ...], list[int]] = {}
    for grid in [*flipped, *(each.T for each in flipped)]:
        moved = [int(cell) for cell in grid.ravel()[list(cells)]]
        images.setdefault(tuple(sorted(moved)), moved)
    return list(images.values())
